//go:build !unix

package policy

// mostConnections is the limit where the system has none of file descriptors.
func mostConnections() int64 { return maxConnections }
