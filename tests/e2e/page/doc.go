// Package page opens the gateway's page at the admin address in a real Chromium, and does what a user does: reads the
// status, searches for a pod, and moves through its table of nodes with the keyboard. It needs no control plane.
package page
