//! Connections that the caller opens.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};

use super::Builder;
use crate::net::streams::Connector;
#[cfg(unix)]
use crate::{endpoint::Endpoint, error::Error, net::transport::Address};

impl Builder {
    /// Calls `connect` with a host and a port for each connection, and uses the stream that it returns: through an
    /// SSH tunnel, a SOCKS proxy or a mesh's sidecar, or over TLS by another library.
    ///
    /// All connections are opened in this way: those to the servers of URLs, to Sentinels, and to the servers
    /// that Sentinels and a Cluster's nodes name (after [`Builder::map_address`], if set). The host is
    /// the one in the URL or of the node, without the brackets of IPv6; the library looks no name up. For `rediss://` URLs
    /// the library speaks TLS over the stream, so `connect` must not. A `redis+unix://` URL is refused.
    ///
    /// `connect` has nine tenths of [`Builder::connect_timeout`], must not block the thread, and may be called several times
    /// at once. Its future may be dropped at any await point. If it fails, panics or takes longer, or its stream fails, panics or
    /// ends, the server is unavailable ([`Unavailable`](crate::ErrorKind::Unavailable)), and connected to again later.
    ///
    /// Each stream has a task on the locker's runtime, which copies between it and a pair of sockets: two descriptors, and one
    /// more write and read for each command and each reply. A stream is shut down and dropped once the locker no
    /// longer needs it; one that hangs is dropped two [`Builder::command_timeout`]s later.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn through_proxy(host: &str, port: u16) -> std::io::Result<tokio::net::TcpStream> { unimplemented!() }
    /// # async fn example() -> Result<(), leasehold::Error> {
    /// let builder = leasehold::Locker::builder().node("redis://redis.internal:6379");
    /// let connect = async |host: String, port: u16| through_proxy(&host, port).await;
    /// let locker = builder.connector(connect).connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn connector<C, S>(
        mut self,
        connect: impl Fn(String, u16) -> C + Send + Sync + 'static,
    ) -> Self
    where
        C: Future<Output = io::Result<S>> + Send + 'static,
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        self.connector = Some(Connector::new(connect));
        self
    }

    /// With a connector every connection uses it, or there is an error: never a connection beside it.
    #[cfg(unix)]
    pub(super) fn check_connector(&self, endpoint: &Endpoint) -> Result<(), Error> {
        match (&self.connector, &endpoint.address) {
            (Some(_), Address::Unix { path }) => Err(Error::misuse(format_args!(
                "a connector was given, and the URL of {} has a path: a connector needs a host and a port, such as \
                 redis://HOST:PORT",
                path.display()
            ))),
            _ => Ok(()),
        }
    }
}
