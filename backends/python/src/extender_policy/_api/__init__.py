"""Generated code. Do not edit: `make generate` writes it."""
