"""`@pytest.mark.gpu_lock`: the system-wide lock of the GPU, held around tests."""
