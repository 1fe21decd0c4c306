"""Tools for working on the repository; the package does not contain them."""
