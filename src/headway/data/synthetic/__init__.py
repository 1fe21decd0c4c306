"""Data sets that headway generates or ships."""
