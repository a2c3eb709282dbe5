// Package process runs child processes for tests: their output goes to a file, tests can wait for a line of it, and
// none of them outlives the process that started it.
package process
