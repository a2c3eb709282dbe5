// Package container tests the images that `make image` and `make scheduler-image` wrote: it unpacks the layers and runs
// programs out of them, as a user that is not root, with a read-only root file system and nothing in it but what a container
// engine mounts.
package container
