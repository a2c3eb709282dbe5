"""Prefers nodes with less measured load, as Koordinator's LoadAwareScheduling does, with data from Prometheus."""

from __future__ import annotations

import ssl
import urllib.parse
from dataclasses import dataclass, field
from typing import Annotated, NoReturn

from prometheus import Access, Load, Loads, Prometheus

from extender_policy import (
    Args,
    Between,
    Configured,
    Info,
    Node,
    NodePart,
    Normalization,
    NotReady,
    Pod,
    PodPart,
    Policy,
    Reads,
    Scale,
    Sized,
    Verb,
    Verdict,
    argument_parser,
    configured,
    exit_with,
    options_from,
    serve,
)

CPU_EXCEEDED = Verdict.reject("node(s) cpu usage exceed threshold", rule="cpu", unresolvable=True)
MEMORY_EXCEEDED = Verdict.reject("node(s) memory usage exceed threshold", rule="memory", unresolvable=True)

# What Koordinator's estimator takes for a pod that requests nothing.
DEFAULT_MILLI_CPU = 250
DEFAULT_MEMORY = 200 << 20

Percent = Annotated[int, Between(0, 100)]


@dataclass(frozen=True)
class Queries:
    """Instant queries with one series for each node: cores in use, and bytes in use.

    The defaults are the kubelet's measurements of the whole node (cAdvisor's root cgroup). With node-exporter, where
    its series have the node's name: `sum by (node) (rate(node_cpu_seconds_total{mode!~"idle|iowait"}[2m]))` and
    `sum by (node) (node_memory_MemTotal_bytes - node_memory_MemAvailable_bytes)`.
    """

    cpu: Annotated[str, Sized(1)] = 'sum by (node) (rate(container_cpu_usage_seconds_total{id="/"}[2m]))'
    memory: Annotated[str, Sized(1)] = 'sum by (node) (container_memory_working_set_bytes{id="/"})'


@dataclass(frozen=True)
class Weights:
    """How much each resource counts."""

    cpu: Percent = 1
    memory: Percent = 1

    def __post_init__(self) -> None:
        if not self.cpu + self.memory:
            raise ValueError("both weights are 0; expected at least one that is larger")


@dataclass(frozen=True)
class Factors:
    """How many percent of its requests a pod is expected to use."""

    cpu: Percent = 85
    memory: Percent = 70


@dataclass(frozen=True)
class Thresholds:
    """From how many percent of usage on a node is rejected; 0: never."""

    cpu: Percent = 65
    memory: Percent = 95


@dataclass(frozen=True)
class Arguments:
    """The operator's args."""

    prometheus_url: str
    queries: Queries = field(default_factory=Queries)
    node_label: Annotated[str, Sized(1)] = "node"
    interval_seconds: Annotated[float, Between(1, 600)] = 15.0
    timeout_seconds: Annotated[float, Between(0.1, 60)] = 5.0
    staleness_seconds: Annotated[float, Between(1, 3600)] = 180.0
    resource_weights: Weights = field(default_factory=Weights)
    estimated_scaling_factors: Factors = field(default_factory=Factors)
    usage_thresholds: Thresholds = field(default_factory=Thresholds)

    def __post_init__(self) -> None:
        try:
            url = urllib.parse.urlsplit(self.prometheus_url)
            is_valid = url.scheme in ("http", "https") and bool(url.hostname) and (url.port is None or url.port > 0)
        except ValueError:
            is_valid = False
        if not is_valid or not self.prometheus_url.isprintable() or " " in self.prometheus_url:
            raise ValueError(
                f"prometheusUrl is {self.prometheus_url!r}; expected a URL such as http://prometheus.monitoring:9090"
            )
        if self.staleness_seconds < self.interval_seconds:
            raise ValueError("stalenessSeconds is less than intervalSeconds; the load would always be stale")


class LoadAware(Policy):
    """Filters and scores by what nodes use, not by what their pods request.

    A node whose load is not known, or stale, is not filtered and has the score 0. If the load of no node is known, the
    policy is not ready, and the failure policy of the operator applies. Answers depend on data that no revision names,
    so the verbs are not pure.
    """

    def __init__(self, arguments: Arguments, loads: Loads) -> None:
        self._arguments = arguments
        self._loads = loads

    def info(self) -> Info:
        verb = Verb.per_node().reads(Reads().node(NodePart.NAME, NodePart.ALLOCATABLE).pod(PodPart.REQUESTS))
        scale = Scale.between(0, 100).normalize(Normalization.RANGE)
        return Info("load-aware", "0.1.0").filters(verb).scores(verb, scale)

    def ready(self) -> None:
        missing = self._loads.missing()
        if missing is not None:
            raise NotReady(missing)

    def filter(self, pod: Pod, node: Node) -> Verdict:
        load, allocatable = self._loads.of(node.name), node.allocatable
        if load is None or allocatable is None:
            return Verdict.accept()
        thresholds = self._arguments.usage_thresholds
        if exceeds(load.milli_cpu, allocatable.milli_cpu, thresholds.cpu):
            return CPU_EXCEEDED
        if exceeds(load.memory, allocatable.memory, thresholds.memory):
            return MEMORY_EXCEEDED
        return Verdict.accept()

    def score(self, pod: Pod, node: Node) -> int:
        load, allocatable = self._loads.of(node.name), node.allocatable
        if load is None or allocatable is None:
            return 0
        weights, expected = self._arguments.resource_weights, self._expected(pod)
        cpu = least_used(load.milli_cpu + expected.milli_cpu, allocatable.milli_cpu)
        memory = least_used(load.memory + expected.memory, allocatable.memory)
        return (cpu * weights.cpu + memory * weights.memory) // (weights.cpu + weights.memory)

    def _expected(self, pod: Pod) -> Load:
        """What the pod will use. Mirrors `DefaultEstimator.EstimatePod` of Koordinator, for pods without limits."""
        factors, requests = self._arguments.estimated_scaling_factors, pod.requests
        milli_cpu = round(requests.milli_cpu * factors.cpu / 100) or DEFAULT_MILLI_CPU
        memory = round(requests.memory * factors.memory / 100) or DEFAULT_MEMORY
        return Load(milli_cpu, memory, 0)


def exceeds(used: float, allocatable: int, threshold: int) -> bool:
    """Whether the usage is at the threshold or above. Mirrors the filter of LoadAwareScheduling."""
    return 0 < threshold <= (round(used * 100 / allocatable) if allocatable > 0 else 0)


def least_used(used: float, allocatable: int) -> int:
    """100 for an idle node, 0 for a full one. Mirrors `leastUsedScore` of LoadAwareScheduling."""
    if allocatable <= 0 or used > allocatable:
        return 0
    return int((allocatable - used) * 100 / allocatable)


def backend(access: Access) -> Configured:
    """One process serves any number of entries with different args; each of them asks on its own."""

    def build(args: Args) -> Policy:
        arguments = args.parse(Arguments)
        prometheus = Prometheus(arguments.prometheus_url, arguments.timeout_seconds, access)
        queries, label = arguments.queries, arguments.node_label
        loads = Loads(
            lambda: (prometheus.vector(queries.cpu, label), prometheus.vector(queries.memory, label)),
            arguments.staleness_seconds,
        )
        loads.keep_fresh(arguments.interval_seconds)
        return LoadAware(arguments, loads)

    return configured(build, name="load-aware")


def main() -> NoReturn:
    """The program, with options of its own."""
    usage = argument_parser("Filters and scores nodes by their measured load, from Prometheus.")
    usage.add_argument("--prometheus-token-file", metavar="FILE", help="a bearer token for Prometheus, read again")
    usage.add_argument("--prometheus-ca", metavar="FILE", help="the CA of a Prometheus at an https URL, in PEM")
    given = usage.parse_args()
    tls = None
    if given.prometheus_ca is not None:
        try:
            tls = ssl.create_default_context(cafile=given.prometheus_ca)
        except OSError as error:
            usage.exit(1, f"cannot read --prometheus-ca {given.prometheus_ca}: {error}; expected a CA in PEM\n")
    access = Access(given.prometheus_token_file, tls)
    exit_with(lambda: serve(backend(access), options_from(usage, given)))


if __name__ == "__main__":
    main()
