package schedulers

//go:generate go run ./generate
