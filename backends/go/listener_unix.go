//go:build unix

package policy

import "syscall"

// mostConnections leaves a quarter of the file descriptors for what the policy opens itself.
func mostConnections() int64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur/4*3 > maxConnections {
		return maxConnections
	}
	return max(int64(limit.Cur/4*3), 1)
}
