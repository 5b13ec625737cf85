//! How connections are made: plainly or encrypted.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::options::Tls;

/// The connector, or `None` where connections are not encrypted.
pub(crate) fn connector(tls: &Tls) -> Result<Option<MakeRustlsConnect>, String> {
    let mut roots = RootCertStore::empty();
    match tls {
        Tls::Off => return Ok(None),
        Tls::SystemRoots => {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
        }
        Tls::Roots(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|cause| format!("a root certificate: {cause}"))?;
                roots.add(certificate).map_err(|cause| format!("a root certificate: {cause}"))?;
            }
        }
    }
    if roots.is_empty() {
        return Err("there is no root certificate to check the server's with".to_string());
    }
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|cause| format!("TLS: {cause}"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Some(MakeRustlsConnect::new(config)))
}
