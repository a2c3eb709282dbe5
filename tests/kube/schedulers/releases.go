// Package schedulers lists the releases of Kubernetes that are tested beside that of tests/go.mod. Each has a Go module
// of its own in this folder, because two versions of Kubernetes do not fit into one module.
package schedulers

import (
	"slices"
	"strconv"
	"strings"
)

// Kind is which program of a release is built.
type Kind string

const (
	// Scheduler is the whole kube-scheduler.
	Scheduler Kind = "kube-scheduler"
	// Client is the HTTP client for extenders of that kube-scheduler, without the rest: these releases call APIs that
	// kube-apiserver no longer serves. Its release.go is written by hand, because the client's types differ.
	Client Kind = "extender-client"
)

// Release is one release of Kubernetes and what is built of it.
type Release struct {
	Kind Kind
	// Version is that of k8s.io/kubernetes, without the v.
	Version string
}

// releases are the ones with a module here, oldest first. After a change, run `go generate ./kube/schedulers`.
var releases = []Release{
	{Client, "1.18.19"},
	{Client, "1.20.15"},
	{Client, "1.22.17"},
	{Scheduler, "1.24.17"},
	{Scheduler, "1.28.15"},
	{Scheduler, "1.30.14"},
	{Scheduler, "1.33.13"},
	{Scheduler, "1.36.3"},
}

// Releases are all releases with a module in this folder, oldest first.
func Releases() []Release { return slices.Clone(releases) }

// Of returns the releases of which this program is built, oldest first.
func Of(kind Kind) []Release {
	return slices.DeleteFunc(Releases(), func(r Release) bool { return r.Kind != kind })
}

// Minor is the version without the patch release, such as 1.24.
func (r Release) Minor() string {
	return r.Version[:strings.LastIndexByte(r.Version, '.')]
}

// MinorNumber is 24 for 1.24.17. It panics if the list above has something else than a version.
func (r Release) MinorNumber() int {
	number, err := strconv.Atoi(strings.Split(r.Version, ".")[1])
	if err != nil {
		panic(err)
	}
	return number
}

// Program is the name of the program and of its folder.
func (r Release) Program() string {
	return string(r.Kind) + "-" + r.Minor()
}

// Staging is the version of the modules that Kubernetes publishes with a release, such as k8s.io/api.
func (r Release) Staging() string {
	return "v0" + strings.TrimPrefix(r.Version, "1")
}
