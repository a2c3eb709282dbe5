// Package schedulers lists the releases of Kubernetes that are tested beside that of tests/go.mod. Each has a go.mod in a
// folder here that replaces that of tests/ while its program is built, because two versions of Kubernetes do not fit into one module.
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
	// kube-apiserver no longer serves. Each has a file of its own beside its main.go, because the client's types differ.
	Client Kind = "extender-client"
)

// Release is one release of Kubernetes and what is built of it.
type Release struct {
	Kind Kind
	// Version is that of k8s.io/kubernetes, without the v.
	Version string
}

// releases are the ones with a folder here, oldest first. After a change, run `go generate ./kube/schedulers`.
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

// Releases are all releases with a folder here, oldest first.
func Releases() []Release { return slices.Clone(releases) }

// Find returns the release that a program is of.
func Find(program string) (Release, bool) {
	at := slices.IndexFunc(releases, func(r Release) bool { return r.Program() == program })
	if at < 0 {
		return Release{}, false
	}
	return releases[at], true
}

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

// Program is the name of the program.
func (r Release) Program() string {
	return string(r.Kind) + "-" + r.Minor()
}

// ModFile is what its program is built with instead of go.mod, below tests/.
func (r Release) ModFile() string {
	return "kube/schedulers/" + r.Program() + "/go.mod"
}

// Files are the sources of its program, below tests/. That of the client is in testdata, because it compiles with no other
// release.
func (r Release) Files() []string {
	if r.Kind == Scheduler {
		return []string{"kube/cmd/kube-scheduler/main.go"}
	}
	const folder = "kube/schedulers/testdata/extender-client/"
	files := []string{folder + "main.go", folder + "release-" + r.Minor() + ".go"}
	if r.MinorNumber() >= 20 {
		files = append(files, folder+"since-1.20.go")
	}
	return files
}

// Staging is the version of the modules that Kubernetes publishes with a release, such as k8s.io/api.
func (r Release) Staging() string {
	return "v0" + strings.TrimPrefix(r.Version, "1")
}
