//! HTTP to the certification authority: our own client, with limits of time and size. Never follows
//! a redirect.

use crate::config::ProviderUrl;
use crate::upstream;
use bytes::Bytes;
use http_body_util::{BodyExt, Collected, Full};
use hyper::Request;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

/// The time for one request. Our choice: authorities may sign within it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Sends the requests of an order.
pub(super) struct Client {
    pub(super) ca_file: Option<PathBuf>,
}

impl HttpClient for Client {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let ca_file = self.ca_file.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            // The authority names further URLs itself.
            if ProviderUrl::parse(&parts.uri.to_string()).is_none() {
                return Err(Error::Str("a URL of the authority that is https"));
            }
            let body = body.collect().await.map(Collected::to_bytes);
            let body = body.unwrap_or_default();
            let request = Request::from_parts(parts, body);
            let response = upstream::send(request, ca_file.as_deref(), REQUEST_TIMEOUT).await;
            let response = response.map_err(|error| Error::Other(Box::new(error)))?;
            Ok(response.map(Full::new).into())
        })
    }
}
