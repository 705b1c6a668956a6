//! Several locks: all of them together, or one of them.

use super::Locker;
#[cfg(doc)]
use crate::Guard;
use crate::error::Error;
use crate::names::Names;
use crate::policy::Wait;
use crate::request::LockRequest;
use crate::request::any::begin_any;
use crate::request::together::begin_all;

impl Locker {
    /// A request for all of these locks at once, which waits while another client holds any of them.
    /// It acquires all, or none.
    ///
    /// Each server grants all of them in one script (in a Cluster one script for each hash slot), so callers that want the
    /// same locks in another order cannot block each other. The guard has one fencing token for all locks.
    ///
    /// The request waits until all locks are free at the same moment, or until its turn comes. In its turn it waits
    /// in the queues of all the locks at once, before all requests for single locks, and keeps the locks that it gets until
    /// it has all of them, for at most 250 ms. If that is too short, it releases them, waits for the same time without any
    /// lock, and has another turn of twice the time, up to 8 seconds. So it is served although others want single
    /// locks. There is one turn at a time among all requests for several locks with one key prefix: its holder has the
    /// lock `leasehold:turn`. In a Cluster there are turns only for locks of one hash slot. Awaiting the request is
    /// [`Misuse`](crate::ErrorKind::Misuse) without a name, and in a Cluster for locks in more than 64 slots.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// let guard = locker.lock_all(["account:1", "account:2"]).await?;
    /// assert_eq!(guard.names().count(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock_all<N: AsRef<[u8]>>(&self, names: impl IntoIterator<Item = N>) -> LockRequest {
        let made = names.into_iter().map(|name| self.name(name.as_ref()));
        let names = made.collect::<Result<Vec<_>, _>>().and_then(|mut names| {
            self.engine.arrange(&mut names);
            if names.is_empty() {
                return Err(Error::misuse("lock_all needs at least one name"));
            }
            Ok(names)
        });
        let is_several = names.as_ref().is_ok_and(|names| names.len() > 1);
        let request = self.of_several(names, Wait::Forever);
        if is_several { request.by(begin_all) } else { request }
    }

    /// A request for one of these locks: the first that is free, in the order given. [`Guard::name`] says
    /// which it is.
    ///
    /// The request tries the locks one by one, a round trip each, and skips those that others wait for. After an eighth
    /// of a command timeout it tries all the others at once. If none is free, it waits for each of them, and keeps the
    /// first that is granted; if another is granted at the same moment, the request releases it. Statistics count a
    /// request for each lock. With [`wait_at_most`](LockRequest::wait_at_most) of zero the request only tries.
    ///
    /// # Errors
    ///
    /// As [`LockRequest`], if none of the locks can be acquired: of their errors the first that is not
    /// contention, or else the first of all; without a name [`Misuse`](crate::ErrorKind::Misuse).
    ///
    /// # Cancel safety
    ///
    /// As [`LockRequest`] says.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// let printer = locker.lock_any(["printer:1", "printer:2", "printer:3"]).await?;
    /// println!("printing on {}", String::from_utf8_lossy(printer.name()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock_any<N: AsRef<[u8]>>(&self, names: impl IntoIterator<Item = N>) -> LockRequest {
        let mut wanted: Vec<Names> = Vec::new();
        let made = names.into_iter().try_for_each(|name| {
            let name = self.name(name.as_ref())?;
            if !wanted.contains(&name) {
                wanted.push(name);
            }
            Ok(())
        });
        let names = match made {
            Ok(()) if wanted.is_empty() => Err(Error::misuse("lock_any needs at least one name")),
            made => made.map(|()| wanted),
        };
        self.of_several(names, Wait::Forever).by(begin_any)
    }
}
