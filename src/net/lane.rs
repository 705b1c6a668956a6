//! A place for one connection to a server at a time.
//!
//! A lease is given a lane when it begins and stays on it, and on the very connection that it
//! began on while that lives, so that its acquire, extend and release cannot overtake another.
//! A lane does not connect: its owner keeps it filled.

use std::sync::Arc;

use tokio::sync::watch;

use super::connection::Connection;
use super::handshake::OpenError;
use crate::box_future::BoxFuture;

/// What a lane holds.
#[derive(Clone)]
pub enum Link {
    /// A first or next connection is being made.
    Connecting,
    /// A connection that was usable when it was put here.
    Up(Arc<Connection>),
    /// The last try to connect failed; the next one waits.
    Down(OpenError),
}

/// One lane.
pub struct Lane {
    link: watch::Sender<Link>,
}

impl Default for Lane {
    fn default() -> Self {
        Self { link: watch::Sender::new(Link::Connecting) }
    }
}

impl Lane {
    /// The connection, if there is one that can take commands.
    pub fn ready(&self) -> Option<Arc<Connection>> {
        self.now().ok()
    }

    /// The connection, or why there is none now.
    ///
    /// # Errors
    ///
    /// What the last try said; [`OpenError::Connecting`] while the first, or the next after an
    /// end, is under way.
    pub fn now(&self) -> Result<Arc<Connection>, OpenError> {
        match &*self.link.borrow() {
            Link::Up(connection) if connection.is_alive() => Ok(Arc::clone(connection)),
            Link::Down(error) => Err(error.clone()),
            Link::Up(_) | Link::Connecting => Err(OpenError::Connecting),
        }
    }

    /// Puts `link` here and tells the waiters.
    pub fn set(&self, link: Link) {
        self.link.send_replace(link);
    }

    /// Puts `link` here for callers that look; waiters are told by [`Lane::tell`].
    pub fn put(&self, link: Link) {
        self.link.send_if_modified(|present| {
            *present = link;
            false
        });
    }

    /// Tells the waiters. To be called where no mutex is held: what a waker does is its own
    /// affair.
    pub fn tell(&self) {
        self.link.send_modify(|_| {});
    }

    /// Waits until a try has ended, this one or an earlier one.
    ///
    /// # Errors
    ///
    /// What the last try said.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub fn tried(&self) -> BoxFuture<'_, Result<Arc<Connection>, OpenError>> {
        Box::pin(async {
            let mut link = self.link.subscribe();
            // The sender lives as long as `self`, so there is always another change.
            let _ = link.wait_for(|link| !matches!(link, Link::Connecting)).await;
            self.now()
        })
    }

    /// Waits for a connection, or for why the next try to get one failed.
    ///
    /// # Errors
    ///
    /// What the try that ended after this call said.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub fn settled(&self) -> BoxFuture<'_, Result<Arc<Connection>, OpenError>> {
        Box::pin(async {
            let mut link = self.link.subscribe();
            loop {
                if let Some(connection) = self.ready() {
                    return Ok(connection);
                }
                // The sender lives as long as `self`, so there is always another change.
                let _ = link.changed().await;
                if let Link::Down(error) = &*link.borrow_and_update() {
                    return Err(error.clone());
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_waiter_learns_why_the_next_try_failed_not_an_earlier_one() {
        let lane = Arc::new(Lane::default());
        let failure = |ms| OpenError::Timeout(std::time::Duration::from_millis(ms));
        lane.set(Link::Down(failure(1)));
        let waiter = tokio::spawn({
            let lane = Arc::clone(&lane);
            async move { lane.settled().await.map(|_| ()) }
        });
        tokio::task::yield_now().await;
        lane.set(Link::Connecting);
        lane.set(Link::Down(failure(2)));
        let error = waiter.await.unwrap().unwrap_err();
        assert_eq!(error.to_string(), failure(2).to_string());
    }
}
