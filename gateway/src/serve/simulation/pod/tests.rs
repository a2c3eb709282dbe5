//! Pods and workloads of files, and the errors for invalid ones.
