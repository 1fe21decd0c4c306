"""The kernels behind `attend`, one file each. Every one meets `reference` on one shared grid of cases."""
