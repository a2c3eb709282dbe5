package policy

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Exit codes of a program.
const (
	exitStarted  = 0
	exitNotRun   = 1
	exitBadUsage = 2
)

// Main runs a policy as a program: it accepts the options of [Options.Register], then does what [Serve] does, and exits: 0
// stopped by a signal, 1 failed to start or ended by itself, 2 wrong usage. A program with options of its own registers
// both kinds in one flag set, and calls Serve.
func Main(source Source, options ...Option) {
	os.Exit(run(os.Args[1:], source, os.Stdout, os.Stderr, options...))
}

func run(arguments []string, source Source, stdout, stderr io.Writer, changes ...Option) int {
	options := Options{Stdout: stdout}
	for _, change := range changes {
		change(&options)
	}
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	options.Register(flags)
	if exit, stop := Parse(flags, arguments, &options, stdout, stderr); stop {
		return exit
	}
	if err := Serve(context.Background(), source, options); err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return exitNotRun
	}
	return exitStarted
}

// registered are the options of Register.
var registered = []string{
	"address", "tls-cert", "tls-key", "tls-client-ca", "allow-unauthenticated-bind", "metrics-address", "log-calls",
}

// variableOf is the variable that sets an option of Register unless it is given.
func variableOf(option string) string {
	return "EXTENDER_POLICY_" + strings.ToUpper(strings.ReplaceAll(option, "-", "_"))
}

// Register adds the options that every backend has to a flag set: --address, --tls-cert, --tls-key, --tls-client-ca,
// --allow-unauthenticated-bind, --metrics-address and --log-calls. [Parse] takes those that are not given from variables such as
// EXTENDER_POLICY_ADDRESS.
func (o *Options) Register(flags *flag.FlagSet) {
	flags.Func("address", "`HOST:PORT` to listen on; port 0 takes a free one (default 127.0.0.1:0)", hostPort(&o.Address))
	flags.StringVar(&o.TLS.Cert, "tls-cert", "", "`FILE` with the server's certificate in PEM: serve with TLS")
	flags.StringVar(&o.TLS.Key, "tls-key", "", "`FILE` with the key of --tls-cert in PEM")
	flags.StringVar(&o.TLS.ClientCA, "tls-client-ca", "", "`FILE` with the authorities of clients in PEM: clients must present a certificate")
	flags.BoolFunc("allow-unauthenticated-bind",
		"serve a policy that binds also beyond loopback without --tls-client-ca: anyone who reaches the address may bind pods",
		boolean(&o.AllowUnauthenticatedBind))
	flags.Func("metrics-address", "`HOST:PORT` where GET /metrics is served for Prometheus (default: nowhere)", hostPort(&o.MetricsAddress))
	flags.BoolFunc("log-calls", "write a line to the log for each call", boolean(&o.LogCalls))
}

func hostPort(to *string) func(string) error {
	return func(given string) error {
		host, port, err := net.SplitHostPort(given)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		if err != nil || strings.ContainsAny(host, " \t") {
			return errors.New("expected HOST:PORT such as 0.0.0.0:9000")
		}
		*to = given
		return nil
	}
}

func boolean(to *bool) func(string) error {
	return func(given string) error {
		if given != "true" && given != "false" {
			return errors.New("expected true or false")
		}
		*to = given == "true"
		return nil
	}
}

// fromEnvironment sets the options that are not given. An empty variable counts as unset.
func fromEnvironment(flags *flag.FlagSet) error {
	given := map[string]bool{}
	flags.Visit(func(option *flag.Flag) { given[option.Name] = true })
	for _, option := range registered {
		variable := variableOf(option)
		value := os.Getenv(variable)
		if value == "" || given[option] || flags.Lookup(option) == nil {
			continue
		}
		if err := flags.Set(option, value); err != nil {
			return fmt.Errorf("invalid value %q of %s: %w", value, variable, err)
		}
	}
	return nil
}

// mistake is what is wrong with the options together; empty if nothing.
func (o *Options) mistake() string {
	if o.MetricsAddress != "" && o.Metrics == nil {
		return "--metrics-address needs metrics, which this program does not have: its author adds policy.WithMetrics(metrics.Prometheus())"
	}
	return o.TLS.mistake()
}

// Parse reads the arguments of a program with these options, which may have others in its flag set. If it returns true, the
// program is to end with the exit code: 0 after --help, and 2 after wrong usage, which is reported on stderr. Options of
// [Options.Register] that are not given are those of the environment.
func Parse(flags *flag.FlagSet, arguments []string, options *Options, stdout, stderr io.Writer) (exit int, stop bool) {
	// The text of the error is written here, with the names of options as operators write them.
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	wrong := func(text string) (int, bool) {
		_, _ = fmt.Fprintf(stderr, "%s\n\n%s", text, help(flags, options))
		return exitBadUsage, true
	}
	err := flags.Parse(arguments)
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, _ = fmt.Fprint(stdout, help(flags, options))
		return exitStarted, true
	case err != nil:
		return wrong(strings.NewReplacer(
			" for flag -", " for --", " for -", " for --", "flag provided but not defined: -", "unknown option --", "flag needs an argument: -", "a value is missing: --",
		).Replace(err.Error()))
	case flags.NArg() > 0:
		return wrong(fmt.Sprintf("unexpected argument %q; expected options only", flags.Arg(0)))
	}
	if err := fromEnvironment(flags); err != nil {
		return wrong(err.Error())
	}
	if mistake := options.mistake(); mistake != "" {
		return wrong(mistake)
	}
	return 0, false
}

const tracing = `
Calls that the gateway traces are continued, and their spans sent to an OpenTelemetry collector, where the standard
variables name one: OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4317, OTEL_EXPORTER_OTLP_PROTOCOL,
OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_TIMEOUT, OTEL_EXPORTER_OTLP_CERTIFICATE (each also as
OTEL_EXPORTER_OTLP_TRACES_...), OTEL_TRACES_EXPORTER=none, OTEL_TRACES_SAMPLER, OTEL_SERVICE_NAME,
OTEL_RESOURCE_ATTRIBUTES, OTEL_BSP_..., OTEL_SDK_DISABLED.
`

func help(flags *flag.FlagSet, options *Options) string {
	var text bytes.Buffer
	_, _ = fmt.Fprint(&text, "Serves one policy to the extender gateway over gRPC.\n\n")
	flags.VisitAll(func(option *flag.Flag) {
		kind, usage := flag.UnquoteUsage(option)
		if slices.Contains(registered, option.Name) {
			usage += " [env: " + variableOf(option.Name) + "]"
		}
		_, _ = fmt.Fprintf(&text, "  %-29s %s\n", strings.TrimSpace("--"+option.Name+" "+kind), usage)
	})
	_, _ = fmt.Fprintf(&text, "  %-29s %s\n", "--help", "prints this")
	_, _ = fmt.Fprint(&text, "\nPrints `listening on HOST:PORT` when it is ready. SIGTERM drains, a second one ends at once.\n")
	if options.Tracer != nil {
		_, _ = fmt.Fprint(&text, tracing)
	}
	return text.String()
}
