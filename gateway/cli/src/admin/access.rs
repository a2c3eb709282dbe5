//! TLS and credentials for admin addresses.

use std::{env, fmt, fs, path::PathBuf, sync::Arc};

use clap::Args;
use extender_gateway_settings::KeyPair;
use extender_gateway_tls::{PemError, client_config};
use http::HeaderValue;
use rustls::ClientConfig;

use super::request::QueryError;

/// The variables for where no option is set.
const CA_VARIABLE: &str = "EXTENDER_GATEWAY_CA_FILE";
const TOKEN_VARIABLE: &str = "EXTENDER_GATEWAY_TOKEN_FILE";

const CA_HELP: &str = "With an https URL, or a pod that requires TLS: the CA certificates that sign the gateway's, PEM \
    [default: that of the variable EXTENDER_GATEWAY_CA_FILE]";
const TOKEN_HELP: &str =
    "A file with a bearer token for the gateway [default: that of the variable EXTENDER_GATEWAY_TOKEN_FILE]";

/// The largest file with a token, in bytes. A request head has 16 KiB.
const LARGEST_TOKEN: usize = 16 << 10;

/// How the gateways of https URLs and in pods are verified, and as whom all of them are queried.
#[derive(Debug, Default, Args)]
pub(super) struct AccessOptions {
    #[arg(long, value_name = "FILE", help = CA_HELP)]
    tls_ca: Option<PathBuf>,

    /// The name that the gateway's certificate must have [default: the host of the URL, or with
    /// --gateway-namespace extender-gateway.NAMESPACE.svc]
    #[arg(long, value_name = "NAME")]
    tls_server_name: Option<String>,

    /// A client certificate for the gateway, PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// The key of the client certificate, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    #[arg(long, value_name = "FILE", conflicts_with = "token", help = TOKEN_HELP)]
    token_file: Option<PathBuf>,

    /// A bearer token for the gateway; other users of this machine may see it in the list of processes
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
}

/// The content of the files.
#[derive(Default)]
pub(super) struct Access {
    /// `None`: no CA is known, so no https URL can be queried.
    pub(super) tls: Option<Arc<ClientConfig>>,
    pub(super) server_name: Option<String>,
    /// The value of the header `Authorization`.
    pub(super) authorization: Option<HeaderValue>,
}

impl fmt::Debug for Access {
    /// Omits the key and the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

impl AccessOptions {
    /// Reads the files; those for TLS only if a gateway may require it.
    ///
    /// # Errors
    /// One of them cannot be used, or an option is of no use.
    pub(super) fn read(&self, is_https: bool) -> Result<Access, QueryError> {
        let tls = if is_https { self.tls()? } else { self.without_tls()? };
        let token = match (&self.token, self.token_file.clone().or_else(|| variable(TOKEN_VARIABLE))) {
            (Some(token), _) => Some(token.clone()),
            (None, Some(file)) => Some(read_token(&file)?),
            (None, None) => None,
        };
        let authorization = token.map(|token| authorization(&token)).transpose()?;
        Ok(Access { tls: tls.map(Arc::new), server_name: self.tls_server_name.clone(), authorization })
    }

    fn tls(&self) -> Result<Option<ClientConfig>, QueryError> {
        let authority = self.tls_ca.clone().map(|file| ("--tls-ca", file));
        let authority = authority.or_else(|| variable(CA_VARIABLE).map(|file| (CA_VARIABLE, file)));
        let identity = self.tls_cert.clone().zip(self.tls_key.clone());
        let identity = identity.map(|(cert_file, key_file)| KeyPair { cert_file, key_file });
        let config = authority.map(|(name, file)| client_config(name, &file, identity.as_ref()));
        config.transpose().map_err(|error| QueryError::File(named(error)))
    }

    /// A certificate that is not used may be missed.
    fn without_tls(&self) -> Result<Option<ClientConfig>, QueryError> {
        let of_tls = [
            ("--tls-ca", self.tls_ca.is_some()),
            ("--tls-server-name", self.tls_server_name.is_some()),
            ("--tls-cert", self.tls_cert.is_some()),
        ];
        match of_tls.into_iter().find(|(_, is_set)| *is_set) {
            Some((option, _)) => Err(QueryError::NotHttps(option)),
            None => Ok(None),
        }
    }
}

/// The file that a variable names.
fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The error with the option in place of the field.
fn named(error: PemError) -> PemError {
    let field = match error.field {
        "certFile" => "--tls-cert",
        "keyFile" => "--tls-key",
        other => other,
    };
    PemError { field, ..error }
}

fn read_token(file: &PathBuf) -> Result<String, QueryError> {
    let unusable = |problem: String| QueryError::Token(format!("{}: {problem}", file.display()));
    let content = fs::read_to_string(file).map_err(|error| unusable(format!("cannot be read: {error}")))?;
    if content.len() > LARGEST_TOKEN {
        return Err(unusable("is larger than 16 KiB".to_owned()));
    }
    Ok(content.trim().to_owned())
}

fn authorization(token: &str) -> Result<HeaderValue, QueryError> {
    let is_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    let value = is_token.then(|| HeaderValue::from_str(&format!("Bearer {token}")).ok()).flatten();
    let mut value = value.ok_or_else(|| QueryError::Token("it is empty or has spaces".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}
