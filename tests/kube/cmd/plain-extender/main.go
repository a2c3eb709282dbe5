// Command plain-extender is an ordinary Go scheduler extender that decides by label rules.
// It prints "listening on ADDRESS" when it is ready.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"

	"extender-gateway.io/tests/kube/extender"
	"extender-gateway.io/tests/kube/rules"
)

func main() {
	address := flag.String("address", "127.0.0.1:0", "where to listen; port 0 takes any free port")
	kubeconfig := flag.String("kubeconfig", "", "cluster whose nodes are watched, for calls that have node names alone")
	ruleFile := flag.String("rules", "", "file of label rules (required)")
	unresolvable := flag.Bool("unresolvable", false, "put refusals into FailedAndUnresolvableNodes instead of FailedNodes")
	flag.Parse()
	if *ruleFile == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	e, err := newExtender(*ruleFile, *kubeconfig, *unresolvable)
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening on", listener.Addr())
	log.Fatal(http.Serve(listener, e.Handler()))
}

func newExtender(ruleFile, kubeconfig string, unresolvable bool) (*extender.Extender, error) {
	e := &extender.Extender{}
	if unresolvable {
		e.Refusals = extender.FailedAndUnresolvable
	}
	var err error
	if e.Rules, err = rules.Load(ruleFile); err != nil {
		return nil, err
	}
	if kubeconfig != "" {
		e.Nodes, err = extender.Watch(context.Background(), kubeconfig)
	}
	return e, err
}
