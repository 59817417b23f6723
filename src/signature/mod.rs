//! (stub)

use bytes::Bytes;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) target_uri: String,
    pub(crate) authority: String,
    pub(crate) request_target: String,
    host: String,
    port: Option<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed")]
pub(crate) struct TargetError;

impl Target {
    pub(crate) fn parse(text: &str) -> Result<Target, TargetError> {
        let url = url::Url::parse(text).map_err(|_| TargetError)?;
        let host = url.host_str().ok_or(TargetError)?;
        let host = host.strip_suffix('.').unwrap_or(host).to_owned();
        if host.split('.').any(str::is_empty) {
            return Err(TargetError);
        }
        let authority = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.clone(),
        };
        let request_target = url[url::Position::BeforePath..url::Position::AfterQuery].to_owned();
        Ok(Target {
            target_uri: format!("https://{authority}{request_target}"),
            authority,
            request_target,
            host,
            port: url.port(),
        })
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn port(&self) -> Option<u16> {
        self.port
    }
}

#[derive(Debug, Clone)]
pub(crate) struct SignedRequest {
    pub(crate) request_target: String,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Bytes,
}
