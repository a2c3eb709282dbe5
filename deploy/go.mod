module extender-gateway.io/deploy

go 1.26.0

require (
	github.com/google/go-containerregistry v0.22.1
	golang.org/x/net v0.56.0
	golang.org/x/sys v0.46.0
)
