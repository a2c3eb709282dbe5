package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/process"
)

// sample is the state at a time since the beginning.
type sample struct {
	at time.Duration
	process.Usage
	// bound, waiting and nodes are as the gateway reports them; reloads are accepted and rejected changes of its configuration.
	bound, waiting, nodes, reloads float64
	restarts                       int64
}

// sample takes one.
func (s *stage) sample(ctx context.Context) (sample, error) {
	usage, err := s.gateway.Usage()
	if err != nil {
		return sample{}, err
	}
	values, err := product.Metrics(ctx, s.metrics)
	return sample{
		at: time.Since(s.begin), Usage: usage, restarts: s.restarts.Load(),
		bound:   values[`extender_gateway_calls_total{verb="bind",outcome="ok"}`],
		waiting: values[`extender_gateway_backend_waiting_pods{backend="stuck"}`],
		nodes:   values["extender_gateway_known_nodes"],
		reloads: values[`extender_gateway_configuration_reloads_total{outcome="ok"}`] + values[`extender_gateway_configuration_reloads_total{outcome="refused"}`],
	}, err
}

// byMinute groups samples; the last minute may be incomplete.
func byMinute(samples []sample) (minutes [][]sample) {
	for _, it := range samples {
		for len(minutes) <= int(it.at/time.Minute) {
			minutes = append(minutes, nil)
		}
		last := len(minutes) - 1
		minutes[last] = append(minutes[last], it)
	}
	return minutes
}

func printTable(out io.Writer, samples []sample) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "minute\tresident kB\tmost\tdescriptors\tmost\tthreads\tpods bound\twaiting\tnodes\trestarts\treloads\t")
	for number, minute := range byMinute(samples) {
		if len(minute) == 0 {
			continue
		}
		last := minute[len(minute)-1]
		fmt.Fprintf(w, "%d\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%d\t%.0f\t\n", number+1,
			median(minute, resident)/1024, most(minute, resident)/1024, median(minute, descriptors), most(minute, descriptors), most(minute, threads),
			last.bound, last.waiting, last.nodes, last.restarts, last.reloads)
	}
	_ = w.Flush()
}

// The measured quantities.
func resident(s sample) float64    { return float64(s.Resident) }
func descriptors(s sample) float64 { return float64(s.Descriptors) }
func threads(s sample) float64     { return float64(s.Threads) }

func median(samples []sample, of func(sample) float64) float64 {
	var values []float64
	for _, it := range samples {
		values = append(values, of(it))
	}
	return middle(values)
}

// middle is the median of values, which it sorts.
func middle(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	half := len(values) / 2
	return (values[half] + values[(len(values)-1)/2]) / 2
}

func most(samples []sample, of func(sample) float64) float64 {
	return of(slices.MaxFunc(samples, func(a, b sample) int { return cmp.Compare(of(a), of(b)) }))
}

// The rules. All are about the second half, when caches and the decision log are full.
const (
	// mostGrowth is how much resident memory may grow over the half by its trend, as a share of its median.
	mostGrowth = 0.03
	// moreDescriptors is how many more descriptors or threads the median of the last quarter may have than that of the one
	// before: a leak at each restart, reload or node would be tens.
	moreDescriptors = 2
)

// judge prints how the rules apply, and is an error if one is broken.
func judge(out io.Writer, samples []sample) error {
	half := samples[len(samples)/2:]
	third, fourth := half[:len(half)/2], half[len(half)/2:]
	growth := trend(half, resident) * half[len(half)-1].at.Seconds() / 2
	share := growth / median(half, resident)
	fmt.Fprintf(out, "\nresident memory: by its trend it grows by %.0f kB in the second half, %.2f %% of the median; at most %.0f %% is allowed\n",
		growth/1024, 100*share, 100*mostGrowth)
	var errs []error
	if share > mostGrowth {
		errs = append(errs, fmt.Errorf("resident memory grows by %.2f %%", 100*share))
	}
	for _, it := range []struct {
		name string
		of   func(sample) float64
	}{{"descriptors", descriptors}, {"threads", threads}} {
		before, after := median(third, it.of), median(fourth, it.of)
		fmt.Fprintf(out, "%s: %.0f in the third quarter, %.0f in the fourth; at most %d more are allowed\n", it.name, before, after, moreDescriptors)
		if after > before+moreDescriptors {
			errs = append(errs, fmt.Errorf("%s grow from %.0f to %.0f", it.name, before, after))
		}
	}
	return errors.Join(append(errs, progress(samples))...)
}

// progress is an error if no pod was bound in a minute: what does nothing needs no memory.
func progress(samples []sample) error {
	for number, minute := range byMinute(samples) {
		if len(minute) > 30 && minute[len(minute)-1].bound <= minute[0].bound {
			return fmt.Errorf("no pod was bound in minute %d", number+1)
		}
	}
	return nil
}

// trend is the median of the slopes between all pairs of samples, in units a second (Theil and Sen): single peaks do not
// change it. Of many samples it takes some, evenly.
func trend(samples []sample, of func(sample) float64) float64 {
	const enough = 600
	step := len(samples)/enough + 1
	var slopes []float64
	for i := 0; i < len(samples); i += step {
		for j := i + step; j < len(samples); j += step {
			slopes = append(slopes, (of(samples[j])-of(samples[i]))/(samples[j].at-samples[i].at).Seconds())
		}
	}
	return middle(slopes)
}
