"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const one = (id) => document.getElementById(id);
  const root = document.documentElement;

  // Theme: what the system says, unless the reader says otherwise.
  const themes = ["auto", "light", "dark"];
  const theme = one("theme");
  const remembered = () => {
    try { return localStorage.getItem("nvfp4-theme"); } catch { return null; }
  };
  const paint = (name) => {
    if (name === "auto") delete root.dataset.theme; else root.dataset.theme = name;
    theme.textContent = `theme: ${name}`;
    theme.value = name;
    try { localStorage.setItem("nvfp4-theme", name); } catch { /* a page from a file may not */ }
  };
  paint(themes.includes(remembered()) ? remembered() : "auto");
  theme.addEventListener("click", () => {
    paint(themes[(themes.indexOf(theme.value) + 1) % themes.length]);
  });
  theme.hidden = false;

  // Filters over the contracts.
  const contracts = all("tbody[data-verdicts]");
  const buttons = all("button[data-verdict]");
  const words = one("words");
  const differing = one("differing");
  const apply = () => {
    const level = document.querySelector("input[name=level]:checked").value;
    const wanted = new Set(
      buttons.filter((b) => b.ariaPressed === "true").map((b) => b.dataset.verdict));
    const sought = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const contract of contracts) {
      const text = contract.textContent.toLowerCase();
      const { level: own, verdicts, differs } = contract.dataset;
      const fits = (level === "all" || own === level)
        && verdicts.split(" ").some((verdict) => wanted.has(verdict))
        && (!differing?.checked || differs !== undefined)
        && sought.every((word) => text.includes(word));
      contract.hidden = !fits;
      shown += fits;
    }
    for (const area of all("details.area")) {
      area.hidden = !area.querySelector("tbody[data-verdicts]:not([hidden])");
    }
    one("none").hidden = shown > 0 || !contracts.length;
    one("shown").textContent = shown === contracts.length
      ? `all ${shown} contracts shown` : `${shown} of ${contracts.length} contracts shown`;
    one("reset").hidden = shown === contracts.length;
  };
  for (const button of buttons) {
    button.addEventListener("click", () => {
      button.ariaPressed = button.ariaPressed === "true" ? "false" : "true";
      apply();
    });
  }
  for (const input of all("#contracts input")) input.addEventListener("input", apply);
  one("open").addEventListener("click", () => all("details.area").forEach((d) => { d.open = true; }));
  one("close").addEventListener("click", () => all("details.area").forEach((d) => { d.open = false; }));
  one("reset").addEventListener("click", () => {
    document.querySelector("input[name=level][value=all]").checked = true;
    buttons.forEach((button) => { button.ariaPressed = "true"; });
    words.value = "";
    if (differing) differing.checked = false;
    apply();
    words.focus();
  });
  document.querySelector("#contracts .filters").hidden = false;
  apply();

  // Which plan map, or which difference.
  const choice = one("choice");
  if (choice) {
    const left = one("left");
    const right = one("right");
    const choose = () => {
      let pair = [left.value, right.value === left.value ? "" : right.value];
      if (pair[1] !== "" && Number(pair[0]) > Number(pair[1])) pair = pair.reverse();
      for (const view of all("details.view")) {
        view.hidden = view.dataset.left !== pair[0] || view.dataset.right !== pair[1];
        view.open = !view.hidden;
      }
    };
    left.addEventListener("input", choose);
    right.addEventListener("input", choose);
    choice.hidden = false;
    choose();
  }
})();
