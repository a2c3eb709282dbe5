use std::{collections::HashMap, path::PathBuf};

use http::header::AUTHORIZATION;

use super::*;

fn program() -> Program {
    let scope = InstrumentationScope::builder("test").build();
    Program { service: "extender-gateway".into(), version: "1.2".into(), scope }
}

fn resolved(variables: &[(&str, &str)], explicit: &Explicit) -> Settings {
    let variables: HashMap<_, _> = variables.iter().copied().collect();
    Settings::resolve(program(), explicit, |name| variables.get(name).map(|value| (*value).to_owned()))
}

fn from(variables: &[(&str, &str)]) -> Settings {
    resolved(variables, &Explicit::default())
}

fn traces(variables: &[(&str, &str)]) -> Export {
    from(variables).traces.unwrap()
}

const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317");

#[test]
fn nothing_is_sent_without_settings() {
    let settings = from(&[]);
    assert!(settings.traces.is_none());
    assert_eq!(settings.to_string(), "no traces");
    assert_eq!(settings.batch, Batch::default());
}

#[test]
fn spans_are_sent_if_enabled_or_with_an_endpoint() {
    for (variables, expected) in [
        (&[ENDPOINT][..], true),
        (&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c:4318/t")], true),
        (&[("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://c:4318/m")], false),
        (&[("OTEL_TRACES_EXPORTER", "otlp")], true),
        (&[("OTEL_METRICS_EXPORTER", "otlp")], false),
        (&[ENDPOINT, ("OTEL_TRACES_EXPORTER", "none")], false),
        (&[ENDPOINT, ("OTEL_METRICS_EXPORTER", "none")], true),
        (&[ENDPOINT, ("OTEL_TRACES_EXPORTER", "")], true),
        (&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")], false),
        (&[ENDPOINT, ("OTEL_SDK_DISABLED", "True"), ("OTEL_TRACES_EXPORTER", "otlp")], false),
        (&[ENDPOINT, ("OTEL_SDK_DISABLED", "false")], true),
    ] {
        assert_eq!(from(variables).traces.is_some(), expected, "{variables:?}");
    }
}

#[test]
fn protocol_and_path_default_to_those_of_the_port() {
    for (variables, endpoint, protocol) in [
        (&[("OTEL_TRACES_EXPORTER", "otlp")][..], "http://localhost:4318/v1/traces", Protocol::Http),
        (&[ENDPOINT], "http://collector:4317/", Protocol::Grpc),
        (
            &[ENDPOINT, ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")],
            "http://collector:4317/v1/traces",
            Protocol::Http,
        ),
        (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "https://c/otlp/")], "https://c/otlp/v1/traces", Protocol::Http),
        (
            &[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c:4318/mine")],
            "http://c:4318/mine",
            Protocol::Http,
        ),
        (
            &[("OTEL_TRACES_EXPORTER", "otlp"), ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc")],
            "http://localhost:4317/",
            Protocol::Grpc,
        ),
    ] {
        let export = traces(variables);
        assert_eq!(
            (export.endpoint.to_string().as_str(), export.protocol),
            (endpoint, protocol),
            "{variables:?}"
        );
    }
}

#[test]
fn a_signals_own_variable_counts_before_that_of_all() {
    let settings = from(&[
        ENDPOINT,
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces:4317"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20all,x=%C3%A4"),
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", " authorization = Bearer%20traces , "),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "1000"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/etc/ca.crt"),
    ]);
    let traces = settings.traces.unwrap();
    assert_eq!(traces.endpoint.host(), Some("traces"));
    assert_eq!(
        (traces.headers.len(), &traces.headers["authorization"]),
        (1, &"Bearer traces".parse().unwrap())
    );
    assert_eq!(traces.timeout, Duration::from_secs(1));
    assert_eq!(traces.certificate, Some(PathBuf::from("/etc/ca.crt")));
    assert!(!format!("{traces:?}").contains("Bearer"), "{traces:?}");
    let all =
        self::traces(&[ENDPOINT, ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20all,x=%C3%A4")]);
    assert_eq!((all.headers.len(), all.headers["x"].as_bytes()), (2, "ä".as_bytes()));
}

#[test]
fn the_resource_says_who_sends() {
    let named = |variables: &[(&str, &str)]| {
        let mut all = vec![ENDPOINT];
        all.extend(variables);
        let resource = from(&all).resource;
        move |key: &str| {
            let values = resource.iter().filter(|attribute| attribute.key.as_str() == key);
            values.map(|attribute| attribute.value.to_string()).collect::<Vec<_>>()
        }
    };
    let plain = named(&[]);
    assert_eq!(
        (plain("service.name"), plain("service.version")),
        (vec!["extender-gateway".into()], vec!["1.2".into()])
    );
    assert_eq!(plain("service.instance.id").len(), 1);
    assert_ne!(plain("service.instance.id"), named(&[])("service.instance.id"));
    let said =
        named(&[("OTEL_RESOURCE_ATTRIBUTES", "service.name=a,k8s.pod.name=p%2C1,service.instance.id=7")]);
    assert_eq!((said("service.name"), said("k8s.pod.name")), (vec!["a".into()], vec!["p,1".into()]));
    assert_eq!(said("service.instance.id"), ["7"]);
    let both = named(&[("OTEL_RESOURCE_ATTRIBUTES", "service.name=a"), ("OTEL_SERVICE_NAME", "b")]);
    assert_eq!(both("service.name"), ["b"]);
}

#[test]
fn samplers_have_their_standard_names() {
    let half = Ratio::new(0.5).unwrap();
    for (name, argument, expected) in [
        ("", "", Sampler::Parent(Ratio::ALL)),
        ("always_on", "", Sampler::Own(Ratio::ALL)),
        ("always_off", "0.5", Sampler::Own(Ratio::NONE)),
        ("traceidratio", "0.5", Sampler::Own(half)),
        ("traceidratio", "", Sampler::Own(Ratio::ALL)),
        ("parentbased_always_on", "", Sampler::Parent(Ratio::ALL)),
        ("parentbased_always_off", "", Sampler::Parent(Ratio::NONE)),
        ("parentbased_traceidratio", "0.5", Sampler::Parent(half)),
    ] {
        let variables = [ENDPOINT, ("OTEL_TRACES_SAMPLER", name), ("OTEL_TRACES_SAMPLER_ARG", argument)];
        assert_eq!(from(&variables).sampler, expected, "{name} {argument}");
    }
}

#[test]
fn batches_are_read() {
    let settings = from(&[
        ENDPOINT,
        ("OTEL_BSP_MAX_QUEUE_SIZE", "100"),
        ("OTEL_BSP_SCHEDULE_DELAY", "20"),
        ("OTEL_BSP_EXPORT_TIMEOUT", "30"),
    ]);
    let count = |count| NonZero::new(count).unwrap();
    let (delay, timeout) = (Duration::from_millis(20), Duration::from_millis(30));
    assert_eq!(settings.batch, Batch { queue: count(100), size: count(100), delay, timeout });
    assert_eq!(from(&[ENDPOINT, ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "9")]).batch.size, count(9));
}

#[test]
fn an_invalid_value_counts_as_unset_and_is_reported() {
    for (name, value, right) in [
        ("OTEL_TRACES_EXPORTER", "jaeger", "expected otlp or none"),
        ("OTEL_TRACES_EXPORTER", "otlp,console", "expected otlp or none"),
        ("OTEL_SDK_DISABLED", "yes", "expected true or false"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317", "expected http://HOST:PORT or https://HOST:PORT"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "ftp://c", "expected http://HOST:PORT or https://HOST:PORT"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://", "expected http://HOST:PORT or https://HOST:PORT"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json", "expected grpc or http/protobuf"),
        (
            "OTEL_EXPORTER_OTLP_TIMEOUT",
            "10s",
            "expected a whole number of milliseconds of at least 1, such as 10000",
        ),
        ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "0", "such as 10000"),
        (
            "OTEL_TRACES_SAMPLER",
            "jaeger_remote",
            "always_on, always_off, traceidratio, or one of these with the prefix",
        ),
        ("OTEL_TRACES_SAMPLER_ARG", "1.5", "expected a number from 0 to 1 such as 0.01"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "0", "expected a number of spans from 1 to 1000000"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "1000001", "expected a number of spans from 1 to 1000000"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2049", "expected at most 2048, the size of the queue"),
        ("OTEL_BSP_SCHEDULE_DELAY", "-1", "such as 10000"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip", "without compression"),
        ("OTEL_RESOURCE_ATTRIBUTES", "a=b,c", "expected key=value,key=value"),
        ("OTEL_RESOURCE_ATTRIBUTES", "a=%ff", "expected key=value,key=value"),
        ("OTEL_RESOURCE_ATTRIBUTES", "=b", "expected key=value,key=value"),
    ] {
        let variables = [ENDPOINT, (name, value)];
        let settings = from(&variables);
        let [warning] = &*settings.warnings else { panic!("{settings:?}") };
        assert!(warning.starts_with(&format!("{name}={value:?} is ignored: ")), "{warning}");
        assert!(warning.contains(right), "{warning}");
        let unset = if name == ENDPOINT.0 { from(&[]) } else { from(&[ENDPOINT]) };
        let compared = |settings: Settings| (settings.traces, settings.sampler, settings.batch);
        let expected = compared(unset);
        assert_eq!(compared(settings), expected, "{name}={value}");
    }
}

#[test]
fn all_warnings_are_there_and_no_secret() {
    let warnings = |variables: &[(&str, &str)]| from(&[&[ENDPOINT], variables].concat()).warnings;
    let secret = ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a secret");
    let said = warnings(&[secret, ("OTEL_TRACES_SAMPLER", "never")]);
    let expected = [
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS is ignored: expected key=value,key=value",
        "OTEL_TRACES_SAMPLER=\"never\" is ignored",
    ];
    assert!(
        said.len() == 2 && said.iter().zip(expected).all(|(said, start)| said.starts_with(start)),
        "{said:?}"
    );
    assert!(!said.concat().contains("secret"), "{said:?}");
    let headers = ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=top%0Asecret");
    let expected = "OTEL_EXPORTER_OTLP_HEADERS is ignored: the value of header authorization contains invalid characters";
    assert_eq!(warnings(&[headers]), [expected]);
}

#[test]
fn what_is_not_sent_is_not_read() {
    let variables = [
        ("OTEL_SDK_DISABLED", "true"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "nowhere"),
        ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
    ];
    assert!(from(&variables).traces.is_none());
}

#[test]
fn a_configuration_wins_over_variables() {
    let explicit = Explicit {
        endpoint: Some("http://mine:4318/base".into()),
        protocol: Some(Protocol::Http),
        timeout: Some(Duration::from_secs(3)),
        traces: Some(Exporter::Otlp),
        ratio: Some(Ratio::NONE),
    };
    let settings = resolved(
        &[
            ENDPOINT,
            ("OTEL_SDK_DISABLED", "true"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces:4317"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=theirs"),
            ("OTEL_TRACES_SAMPLER", "always_on"),
        ],
        &explicit,
    );
    let headers = [(AUTHORIZATION, "theirs".parse().unwrap())].into_iter().collect();
    let timeout = Duration::from_secs(3);
    let endpoint = "http://mine:4318/base/v1/traces".parse().unwrap();
    let expected = Export { endpoint, protocol: Protocol::Http, headers, timeout, certificate: None };
    assert_eq!(settings.traces, Some(expected));
    assert_eq!(settings.sampler, Sampler::Parent(Ratio::NONE));
    let said = Explicit { endpoint: Some("http://mine:4317".into()), ..Explicit::default() };
    assert_eq!(resolved(&[], &said).to_string(), "traces to http://mine:4317/ by grpc");
}

#[test]
fn an_invalid_configuration_is_reported() {
    let explicit =
        Explicit { endpoint: Some("mine".into()), traces: Some(Exporter::Otlp), ..Explicit::default() };
    let expected = "the OTLP endpoint \"mine\" is ignored: expected http://HOST:PORT or https://HOST:PORT";
    assert_eq!(resolved(&[], &explicit).warnings, [expected]);
}
