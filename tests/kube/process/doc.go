// Package process runs child processes for tests: their output goes to a file, a line of it can
// be waited for, and none of them outlives the process that started it.
package process
