//! The holder of a lock, and how to end the lease of another process.

use bytes::Bytes;

use super::Locker;
use super::look::{Looked, end, look_all};
use super::spot::Spot;
use super::view::{Broken, HolderView, LockView, ServerFailure, merge, report};
use crate::error::{Error, Kind};
use crate::names::{InvalidName, Names};
use crate::net::reason::Reason;
use crate::race::all;

impl Locker {
    /// Shows the holder of the lock `name`, from the answers of all reachable servers. Changes nothing on them. A
    /// restarted server that may not vote yet is asked too; if it shows no lease, that counts as no answer.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// let view = locker.inspect("invoice:42").await?;
    /// if let Some(first) = view.holders.first() {
    ///     println!("held by {} on {} of {} servers", first.holder, first.servers.len(), view.servers);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Misuse`](crate::ErrorKind::Misuse) for an invalid name, or if the key holds a value that is no lock; as a
    /// request for the lock, if no server answered. Single servers without an answer are in
    /// [`LockView::failures`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub async fn inspect(&self, name: impl AsRef<[u8]>) -> Result<LockView, Error> {
        let names = [self.shown(name.as_ref()).map_err(Error::misuse)?];
        let looked = look_all(&self.engine, &names, None).await;
        self.seen(&names[0], looked.into_iter().flatten().collect())
    }

    /// Ends the leases that `seen` shows, on every server, and no others: a client that has acquired
    /// the lock since keeps it, and the fence counter keeps its number.
    ///
    /// This is for a holder that is known to be dead or stuck. A holder that still runs learns of its
    /// loss at its next renewal, unless it does not renew. Until then it works beside the next holder,
    /// and only a resource that checks fencing tokens refuses its writes.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// let seen = locker.inspect("nightly").await?;
    /// // After a person has confirmed that this holder is dead:
    /// let broken = locker.break_lease(&seen).await?;
    /// assert!(broken.is_complete());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Misuse`](crate::ErrorKind::Misuse) if `seen` shows no holder, or a value that is too long for a lease.
    /// Servers without an answer are in [`Broken::failures`].
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, leases may be ended on any of the servers.
    pub async fn break_lease(&self, seen: &LockView) -> Result<Broken, Error> {
        let names = self.shown(&seen.name).map_err(Error::misuse)?;
        if seen.holders.is_empty() {
            return Err(Error::misuse("the view shows no holder"));
        }
        let values: Vec<&[Bytes]> = seen.holders.iter().map(HolderView::values).collect();
        if values.contains(&&[][..]) {
            return Err(Error::misuse("the key's value is too long for a lease"));
        }
        let values = values.concat();
        let ends = async |spot: Spot| {
            let mut is_freed = false;
            for value in &values {
                is_freed |= end(&spot, &names, value).await?;
            }
            Ok::<_, Reason>(is_freed)
        };
        let ended = all(self.spots(&names).map(ends)).await;
        let (mut freed, mut failures) = (Vec::new(), Vec::new());
        for (spot, ended) in self.spots(&names).zip(ended) {
            let server = spot.address();
            match ended {
                Ok(true) => freed.push(server),
                Ok(false) => {}
                Err(reason) => failures.push(ServerFailure::new(server, &reason)),
            }
        }
        Ok(Broken { freed, failures, quorum: self.engine.quorum().needed() })
    }

    /// The names of a lock to inspect. A permit of a semaphore over several servers has names as well, by its key with
    /// or without the prefix.
    pub(super) fn shown(&self, name: &[u8]) -> Result<Names, InvalidName> {
        #[cfg(any(test, feature = "sharing"))]
        {
            let prefix = &self.defaults.prefix[..];
            let whole = [prefix, name].concat();
            let permit =
                Names::of_permit(prefix, name).or_else(|| Names::of_permit(prefix, &whole));
            if let Some(permit) = permit {
                return Ok(permit);
            }
        }
        self.names(name)
    }

    /// Merges the servers' answers on a lock, in their order; an error if none answered.
    pub(super) fn seen(&self, names: &Names, looked: Vec<Looked>) -> Result<LockView, Error> {
        let view = self.view(names, looked);
        if view.failures.len() == view.servers {
            let report = report(&view.failures);
            return Err(Error::new(Kind::unserved(&report), names.to_string(), report));
        }
        Ok(view)
    }

    /// Merges the servers' answers on a lock, in their order.
    pub(super) fn view(&self, names: &Names, looked: Vec<Looked>) -> LockView {
        let looked = self.spots(names).map(|spot| spot.address()).zip(looked).collect();
        let name = names.lock();
        let name = name.strip_prefix(&self.defaults.prefix[..]).unwrap_or(name).to_vec();
        merge(name, self.engine.quorum(), self.engine.fingerprint(), looked)
    }

    /// The servers that have this lock now.
    fn spots(&self, names: &Names) -> impl Iterator<Item = Spot> {
        (0..Spot::count(&self.engine)).map(|vote| Spot::of(&self.engine, vote, names.lock()))
    }
}
