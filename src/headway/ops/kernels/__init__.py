"""The kernels behind `attend`, one module or package each; all are tested against `reference` on the same cases."""
