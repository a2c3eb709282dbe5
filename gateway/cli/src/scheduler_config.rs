//! `scheduler-config`: the `extenders` of kube-scheduler's configuration for a gateway's configuration.

use std::{
    io,
    net::IpAddr,
    path::{Path, PathBuf},
    str::FromStr,
};

use clap::{Args, ValueEnum};
use extender_gateway_scheduler_config::{
    Address, Extenders, Import, Profile, Reach, Scope, TlsFiles, entries_of, policy_json,
};
use extender_gateway_settings::{Binder, Config};
use http::Uri;

use super::output::{Console, Failure};

/// The command's description.
pub(super) const ABOUT: &str = "Print the extenders entries for kube-scheduler's configuration.\n\n\
    Prints the entries that make kube-scheduler call a gateway with this configuration. Filter, prioritize and preempt are always \
    included, so that adding a backend needs no change in kube-scheduler; --minimal prints only the verbs in use. Binding, \
    resources ignored by kube-scheduler, TLS and timeouts follow the gateway's configuration.\n\n\
    --import reads kube-scheduler's configuration instead, and prints two YAML documents: a configuration of the gateway with a backend \
    for each of its extenders, asked by `extender-policies http-extender`, and the entries that replace them. --print prints one of them, for a file, or values of the Helm chart.\n\n\
    --door plugin prints a profile for a kube-scheduler that has the gateway's plugin, instead of entries.";

/// Examples.
pub(super) const EXAMPLES: &str = "\
Examples:
  extender-gateway scheduler-config --config gateway.yaml --url http://gateway:8888
  extender-gateway scheduler-config --config gateway.yaml --url https://10.0.0.10:8888 \\
    --ca-file /etc/kubernetes/gateway/ca.crt --cert-file /etc/kubernetes/gateway/tls.crt \\
    --key-file /etc/kubernetes/gateway/tls.key
  extender-gateway scheduler-config --config gateway.yaml --kubernetes 1.18 > policy.json
  extender-gateway scheduler-config --config gateway.yaml --door plugin
  extender-gateway scheduler-config --import kube-scheduler.yaml \\
    --backend-url http://http-extender.policies.svc:9000
  extender-gateway scheduler-config --import kube-scheduler.yaml --print gateway > gateway.yaml
  extender-gateway scheduler-config --import kube-scheduler.yaml --print extenders > extenders.yaml
  extender-gateway scheduler-config --import kube-scheduler.yaml --print values > values.yaml";

/// The command's options.
#[derive(Clone, Debug, Args)]
pub(super) struct SchedulerConfigOptions {
    /// The gateway's configuration file (YAML); `-` reads standard input
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Instead of --config: a configuration of kube-scheduler with extenders, or an older policy file, YAML or JSON, to put the
    /// gateway in front of them; `-` reads standard input
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    import: Option<PathBuf>,

    /// With --import: how the gateway reaches `extender-policies http-extender`
    #[arg(long, value_name = "URL", requires = "import", default_value = "http://127.0.0.1:9000", value_parser = plain_url)]
    backend_url: String,

    /// With --import: print one document [default: gateway and extenders]
    #[arg(long, value_enum, value_name = "DOCUMENT", conflicts_with = "config", requires = "import")]
    print: Option<Document>,

    /// How kube-scheduler asks the gateway
    #[arg(long, value_enum, value_name = "DOOR", default_value = "extender", conflicts_with = "import")]
    door: SchedulerDoor,

    /// How kube-scheduler reaches the gateway [default: extender.address, from the same machine]
    #[arg(long)]
    url: Option<String>,

    /// The version of kube-scheduler, 1.18 or later; for 1.18, prints the file for --policy-config-file
    #[arg(long, value_name = "VERSION", default_value = "1.37")]
    kubernetes: Version,

    /// Print only the verbs that the backends use
    #[arg(long)]
    minimal: bool,

    /// Let kube-scheduler place pods without any policy while no gateway answers; without this it schedules none
    #[arg(long)]
    ignorable: bool,

    /// CA file for the gateway's certificate, on kube-scheduler's machine
    #[arg(long, value_name = "FILE")]
    ca_file: Option<String>,

    /// Client certificate of kube-scheduler, on its machine
    #[arg(long, value_name = "FILE", requires = "key_file")]
    cert_file: Option<String>,

    /// The key of that certificate
    #[arg(long, value_name = "FILE", requires = "cert_file")]
    key_file: Option<String>,
}

const NO_FILE: &str = "there is no file to read; name a gateway's configuration with --config FILE, or one of kube-scheduler that has \
                       extenders with --import FILE";

/// How kube-scheduler asks the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SchedulerDoor {
    /// As an extender, over HTTP
    Extender,
    /// By the gateway's plugin, at extender.socket
    Plugin,
}

/// What `--import` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Document {
    /// The gateway's configuration
    Gateway,
    /// The entries for kube-scheduler's configuration
    Extenders,
    /// The gateway's configuration as values of the Helm chart
    Values,
}

/// Prints the entries, and as notes what JSON has no comments for and what must not be overlooked.
pub(super) fn run(options: &SchedulerConfigOptions, console: &mut Console<'_>) -> Result<(), Failure> {
    match (&options.import, &options.config) {
        (Some(file), _) => import(file, options, console),
        (None, Some(file)) if options.door == SchedulerDoor::Plugin => {
            print_profile(&Config::read(file)?, options, console)
        }
        (None, Some(file)) => print(&Config::read(file)?, options, console),
        (None, None) => Err(Failure::Usage(NO_FILE.to_owned())),
    }
}

/// Prints the gateway's configuration for the extenders of a file, and then the entries for it.
fn import(file: &Path, options: &SchedulerConfigOptions, console: &mut Console<'_>) -> Result<(), Failure> {
    let import = Import::read(file)?;
    let yaml = import.gateway(&options.backend_url, address(options.url.as_deref())).to_string();
    let config = Config::parse(&yaml, Path::new(""))
        .map_err(|errors| errors.in_file(Path::new("the gateway's configuration for these extenders")))?;
    match options.print {
        None | Some(Document::Gateway) => write!(console.out, "{yaml}")?,
        Some(Document::Values) => write!(console.out, "{}", import.values())?,
        Some(Document::Extenders) => {}
    }
    if options.print.is_none() {
        write!(console.out, "---\n# For kube-scheduler's configuration, instead of its extenders.\n")?;
    }
    if matches!(options.print, None | Some(Document::Extenders)) {
        print(&config, options, console)?;
    }
    if options.print == Some(Document::Values) && import.binds() {
        writeln!(
            console.notes,
            "one of them binds: the chart needs tls with client certificates, see its values"
        )?;
    }
    if options.print != Some(Document::Extenders) {
        for note in import.notes() {
            writeln!(console.notes, "{note}")?;
        }
    }
    Ok(())
}

/// The gateway's address for an operator who says how kube-scheduler reaches it.
fn address(url: Option<&str>) -> Address {
    let url = url.and_then(|url| url.parse::<Uri>().ok());
    match url.filter(|url| url.scheme_str() == Some("https") && !is_local(url)) {
        Some(url) => Address::RemoteTls(url.port_u16().unwrap_or(443)),
        None => Address::Local,
    }
}

fn is_local(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Why kube-scheduler cannot reach the gateway at a URL.
fn unreachable_at(url: Option<&str>, config: &Config) -> Option<String> {
    let url = url.filter(|url| url.parse().is_ok_and(|url| !is_local(&url)))?;
    let address = config.extender.address;
    address.ip().is_loopback().then(|| {
        let remedy = if config.binder == Binder::None {
            "set extender.address to 0.0.0.0"
        } else {
            "use an https URL: the gateway binds pods for clients with certificates alone, so extender.address 0.0.0.0 needs \
             extender.tls with clientCAFile"
        };
        format!("kube-scheduler cannot reach extender.address {address} at {url} from another machine; {remedy}")
    })
}

/// The URL of a backend without TLS, whose files are no part of what is imported.
fn plain_url(text: &str) -> Result<String, String> {
    let url: Uri = text.parse().map_err(|_| NOT_PLAIN)?;
    let is_plain = url.scheme_str() == Some("http") && url.port_u16().is_some() && url.path() == "/";
    if is_plain && !text.ends_with('/') && url.query().is_none() {
        Ok(text.to_owned())
    } else {
        Err(NOT_PLAIN.to_owned())
    }
}

const NOT_PLAIN: &str = "expected http://HOST:PORT; for https, change url and add tls in what is printed";

/// Prints the profile for a configuration.
fn print_profile(
    config: &Config,
    options: &SchedulerConfigOptions,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let of_entries = [
        (options.url.is_some(), "--url"),
        (options.minimal, "--minimal"),
        (options.ca_file.is_some(), "--ca-file"),
        (options.cert_file.is_some(), "--cert-file"),
    ];
    if let Some((_, option)) = of_entries.iter().find(|(is_set, _)| *is_set) {
        return Err(Failure::Usage(format!(
            "{option} is for --door extender: a plugin asks at extender.socket, for all verbs"
        )));
    }
    if options.kubernetes.0 < Version::OLDEST_WITH_PLUGIN {
        let oldest = Version::OLDEST_WITH_PLUGIN;
        return Err(Failure::Usage(format!(
            "there is no plugin for 1.{}, only for 1.{oldest} and later",
            options.kubernetes.0
        )));
    }
    let mut profile = Profile::of(config).ok_or_else(|| {
        Failure::Usage(
            "extender.socket is not set: the profile is for a plugin that asks there, such as at \
             /run/extender-gateway/plugin.sock; docs/plugin.md has the arguments for extender.address"
                .to_owned(),
        )
    })?;
    profile.ignorable |= options.ignorable;
    write!(console.out, "{profile}")?;
    writeln!(console.notes, "remove the gateway from `extenders`: with both, kube-scheduler does not start")?;
    Ok(())
}

/// Prints the entries for a configuration.
fn print(
    config: &Config,
    options: &SchedulerConfigOptions,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let files = TlsFiles {
        ca: options.ca_file.clone(),
        cert: options.cert_file.clone(),
        key: options.key_file.clone(),
    };
    let reach = &Reach::new(config, options.url.as_deref(), files)
        .map_err(|error| Failure::Usage(error.to_string()))?;
    let scope = if options.minimal { Scope::Minimal } else { Scope::Lasting };
    let entries = entries_of(config, scope);
    let entries = &if options.ignorable { entries.ignorable() } else { entries };
    if options.kubernetes.reads_policy() {
        let json = policy_json(entries, reach).map_err(io::Error::from)?;
        writeln!(console.out, "{json}")?;
    } else {
        write!(console.out, "{}", Extenders { entries, reach })?;
    }
    let notes = [
        (
            options.kubernetes.reads_policy() && reach.is_assumed,
            "urlPrefix assumes kube-scheduler on the gateway's machine; set --url to change it",
        ),
        (
            reach.has_placeholders(),
            "fill in the files of tlsConfig, or set --ca-file, --cert-file and --key-file",
        ),
        (
            !options.kubernetes.shows_all_reasons(),
            "kube-scheduler up to 1.20 drops rejected nodes but shows no reason unless preemption may help",
        ),
    ];
    for (_, note) in notes.iter().filter(|(applies, _)| *applies) {
        writeln!(console.notes, "{note}")?;
    }
    if let Some(note) = unreachable_at(options.url.as_deref(), config) {
        writeln!(console.notes, "{note}")?;
    }
    Ok(())
}

/// The minor version of kube-scheduler, from `1.37`, `v1.18.20`, `1.37-rc.1` or `1.18+`. The rest is ignored.
#[derive(Clone, Copy, Debug)]
struct Version(u32);

impl Version {
    const OLDEST_SUPPORTED: u32 = 18;
    const OLDEST_WITH_PLUGIN: u32 = 35;

    /// Whether extenders are configured in the JSON file of `--policy-config-file`: `extenders` of a
    /// `KubeSchedulerConfiguration` has its current form since 1.19.
    fn reads_policy(self) -> bool {
        self.0 < 19
    }

    /// Whether the reasons of all rejected nodes are shown: older versions ignore `FailedAndUnresolvableNodes`
    /// (`ExtenderFilterResult` of `k8s.io/kube-scheduler/extender/v1`, version 0.21).
    fn shows_all_reasons(self) -> bool {
        self.0 >= 21
    }
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let oldest = Self::OLDEST_SUPPORTED;
        match text.strip_prefix('v').unwrap_or(text).strip_prefix("1.").and_then(minor) {
            Some(minor) if minor >= oldest => Ok(Self(minor)),
            Some(minor) => Err(format!("1.{minor} is not supported; 1.{oldest} and later are")),
            None => Err(format!("not a version of Kubernetes such as 1.37 or v1.{oldest}.20")),
        }
    }
}

/// The number at the start of the text, followed by nothing, a patch version, a pre-release or a distributor's `+`.
fn minor(text: &str) -> Option<u32> {
    let (number, rest) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let ends = rest.is_empty() || rest.starts_with(['.', '-', '+']);
    number.parse().ok().filter(|_| ends)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: SchedulerConfigOptions,
    }

    /// Imports a file with this text: the result, the output and the notes.
    fn imported(text: &str, more: &[&str]) -> (Result<(), Failure>, String, String) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, text).unwrap();
        let path = file.path().to_str().unwrap();
        let line = ["", "--import", path];
        let url: &[_] = if more.contains(&"--url") { &[] } else { &["--url", "http://gateway:1"] };
        let Line { options } = Line::parse_from(line.iter().chain(url).chain(more));
        let (mut out, mut notes) = (Vec::new(), Vec::new());
        let outcome = run(&options, &mut Console { out: &mut out, notes: &mut notes });
        (outcome, String::from_utf8(out).unwrap(), String::from_utf8(notes).unwrap())
    }

    #[test]
    fn extenders_become_two_documents() {
        let entry = "urlPrefix: 'http://a', filterVerb: f, ignorable: true";
        let file = format!("kind: Policy\nextenders: [{{{entry}}}]\n");
        let (outcome, out, notes) = imported(&file, &[]);
        outcome.unwrap();
        let (gateway, scheduler) = out.split_once("---\n").unwrap();
        let config = Config::parse(gateway, Path::new("")).unwrap();
        assert_eq!(config.backends[0].url.to_string(), "http://127.0.0.1:9000");
        let expected = "# For kube-scheduler's configuration, instead of its extenders.\nextenders:\n- urlPrefix: \"http://gateway:1\"\n";
        assert!(scheduler.starts_with(expected) && scheduler.contains("  ignorable: true"), "{scheduler}");
        let (outcome, values, _) = imported(&file, &["--print", "values"]);
        outcome.unwrap();
        assert!(values.contains("\npolicies:\n- name: a\n  program: http-extender\n"), "{values}");
        assert!(notes.starts_with("exempt.namespaces is []"), "{notes}");
        let (outcome, printed, only_notes) = imported(&file, &["--print", "gateway"]);
        outcome.unwrap();
        assert_eq!((printed.as_str(), only_notes), (gateway, notes));
        let (outcome, printed, notes) = imported(&file, &["--print", "extenders"]);
        outcome.unwrap();
        assert!(printed.starts_with("extenders:\n") && scheduler.ends_with(&printed), "{printed}");
        assert_eq!(notes, "");
        let errors = Config::parse(&out, Path::new("")).unwrap_err().to_string();
        assert!(errors.contains("several YAML documents") && errors.contains("--print gateway"), "{errors}");
        let (outcome, out, _) = imported("kind: Policy\nextenders: [{urlPrefix: 'http://a'}]\n", &[]);
        let said = outcome.unwrap_err().to_string();
        assert!(said.contains(" line 2: extenders[0]: has no verb; ") && out.is_empty(), "{said}");
    }

    #[test]
    fn an_address_that_kube_scheduler_cannot_reach_is_said() {
        let file = "kind: Policy\nextenders: [{urlPrefix: 'http://a', filterVerb: f, bindVerb: b}]\n";
        let (outcome, out, notes) = imported(file, &[]);
        outcome.unwrap();
        assert!(out.contains("address: \"127.0.0.1:8888\""), "{out}");
        let expected = "cannot reach extender.address 127.0.0.1:8888 at http://gateway:1 from another machine; use an https URL";
        assert!(notes.contains(expected), "{notes}");
        let (outcome, out, notes) = imported(file, &["--url", "https://gateway:1"]);
        outcome.unwrap();
        assert!(
            out.contains("extender: {address: \"0.0.0.0:1\", tls: {certFile: /FILL/IN/tls.crt, "),
            "{out}"
        );
        assert!(out.contains("    certFile: /FILL/IN/tls.crt"), "the client's {out}");
        assert!(!notes.contains("cannot reach"), "{notes}");
        let (outcome, _, notes) = imported(file, &["--url", "http://localhost:1"]);
        outcome.unwrap();
        assert!(!notes.contains("cannot reach"), "{notes}");
    }

    #[test]
    fn a_line_without_a_file_names_both_options() {
        let Line { options } = Line::parse_from([""]);
        let (mut out, mut notes) = (Vec::new(), Vec::new());
        let failure = run(&options, &mut Console { out: &mut out, notes: &mut notes }).unwrap_err();
        assert!(failure.exit_code() == 2 && failure.to_string().ends_with(NO_FILE), "{failure}");
        assert!(NO_FILE.contains("--config FILE") && NO_FILE.contains("--import FILE"));
    }

    #[test]
    fn a_backend_is_reached_without_tls() {
        for url in ["http://127.0.0.1:9000", "http://http-extender.policies.svc:9000", "http://[::1]:1"] {
            assert_eq!(plain_url(url), Ok(url.to_owned()));
        }
        for url in ["https://a:1", "http://a", "http://a:1/", "http://a:1/b", "http://a:1?b", "a:1", ""] {
            assert_eq!(plain_url(url), Err(NOT_PLAIN.to_owned()), "{url}");
        }
    }

    #[test]
    fn the_form_changed_with_1_19() {
        let cases = [
            ("1.18", true),
            ("v1.18.20", true),
            ("1.18+", true),
            ("1.19", false),
            ("1.36-rc.1", false),
            ("v1.36.3-rc.1", false),
            ("1.100", false),
        ];
        for (text, policy) in cases {
            assert_eq!(text.parse::<Version>().unwrap().reads_policy(), policy, "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_version() {
        for text in ["", "1", "1.", "2.0", "1.x", "1.+18", "1.18x", "1.-1", "11.18", "latest", "vv1.18"] {
            let error = text.parse::<Version>().unwrap_err();
            assert_eq!(error, "not a version of Kubernetes such as 1.37 or v1.18.20", "{text}");
        }
    }

    #[test]
    fn versions_of_which_nothing_is_known_are_refused() {
        for (text, named) in
            [("1.2", "1.2"), ("v1.3", "1.3"), ("1.17.17", "1.17"), ("1.0", "1.0"), ("1.08", "1.8")]
        {
            let expected = format!("{named} is not supported; 1.18 and later are");
            assert_eq!(text.parse::<Version>().unwrap_err(), expected);
        }
    }

    #[test]
    fn all_reasons_are_shown_from_1_21_on() {
        for (text, all) in
            [("1.18", false), ("1.19", false), ("1.20.15", false), ("1.21", true), ("1.36", true)]
        {
            assert_eq!(text.parse::<Version>().unwrap().shows_all_reasons(), all, "{text}");
        }
    }
}
