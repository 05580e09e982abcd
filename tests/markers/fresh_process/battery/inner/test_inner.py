def test_conftest_of_its_folder(place):
    assert place == "inner"


def test_same_name_as_elsewhere():
    assert place_of() == "outer"


def place_of():
    return "inner"
