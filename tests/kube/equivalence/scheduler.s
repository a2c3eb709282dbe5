// Functions without a body, as in scheduler_test.go, are allowed where a package has assembly.
