//! Reads the certificate files of the configuration again and again, so that nobody is surprised by their end.

use std::{convert::Infallible, sync::Arc, time::Duration};

use extender_gateway_tls::{CertificateFile, Certificates, PemError, Validity};
use jiff::Timestamp;
use tokio::{
    sync::watch,
    task::spawn_blocking,
    time::{sleep, timeout},
};

/// The time between two reads. Renewed files are used after a second; this is only for those who watch.
const PERIOD: Duration = Duration::from_secs(10);

/// Keeps `certificates` up to date with the files.
pub(super) async fn follow(
    mut files: watch::Receiver<Vec<CertificateFile>>,
    certificates: Arc<Certificates>,
) -> Infallible {
    loop {
        let now = files.borrow_and_update().clone();
        // A panic of a parser concerns only this.
        if let Ok(read) = spawn_blocking(|| read(now)).await {
            certificates.update(read, Timestamp::now());
        }
        // Whichever comes first.
        if timeout(PERIOD, files.changed()).await.is_ok_and(|changed| changed.is_err()) {
            // No other configuration will come.
            sleep(PERIOD).await;
        }
    }
}

fn read(files: Vec<CertificateFile>) -> Vec<(CertificateFile, Result<Validity, String>)> {
    let read = |file: CertificateFile| {
        let validity = match file.validity() {
            Ok(validity) => validity.ok_or_else(|| "no certificate in it can be parsed".to_owned()),
            Err(PemError { problem, .. }) => Err(problem),
        };
        (file, validity)
    };
    files.into_iter().map(read).collect()
}
