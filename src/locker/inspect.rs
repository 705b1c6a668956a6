//! Who holds a lock, and how somebody else's lease is ended.

use super::Locker;
use super::view::{Broken, HolderView, LockView, ServerFailure, merge, report};
use crate::error::{Error, Kind};
use crate::lock::answer::Reason;
use crate::lock::look::{Looked, end, look};
use crate::lock::names::Names;
use crate::lock::race::all;
use crate::server::place::Place;

impl Locker {
    /// Who holds the lock `name`, as every server says that can be asked. It changes nothing on
    /// them. One that may not vote yet, because it has restarted, is asked too: what it shows counts,
    /// and that it shows nothing is no answer.
    ///
    /// # Errors
    ///
    /// [`Error::is_misuse`] for a name that cannot be, and where the key holds something that is no
    /// lock; else as a request for the lock, where no server at all gave an answer. Some that gave
    /// none are in [`LockView::failures`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub async fn inspect(&self, name: impl AsRef<[u8]>) -> Result<LockView, Error> {
        let names = [self.name(name.as_ref())?];
        let places = self.engine.places().iter();
        let looked = all(places.map(|place| look(place, &names))).await;
        let looked: Vec<Looked> = looked.into_iter().flatten().collect();
        let view = self.view(&names[0], looked);
        if view.failures.len() == view.servers {
            let [names] = names;
            let report = report(&view.failures);
            return Err(Error::new(Kind::unserved(&report), names.to_string(), report));
        }
        Ok(view)
    }

    /// Ends the leases that `seen` shows, on every server: each only where it is still that one's.
    /// Whoever has taken the lock since then keeps it, and the fence counter keeps its number.
    ///
    /// This is for a holder that is known to be gone or stuck. One that lives learns of its loss
    /// at its next renewal at the latest, unless it does not renew; whatever it does until then, and
    /// does not guard by its fencing token, it does beside the next holder.
    ///
    /// # Errors
    ///
    /// [`Error::is_misuse`] where nobody is shown, or a value that is too long to be a lease's.
    /// Servers that gave no answer are in [`Broken::failures`].
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, leases may be ended on any of the servers.
    pub async fn break_lease(&self, seen: &LockView) -> Result<Broken, Error> {
        let names = self.name(&seen.name)?;
        let values: Option<Vec<_>> = seen.holders.iter().map(HolderView::value).collect();
        let values =
            values.ok_or_else(|| Error::misuse("the key's value is too long for a lease"))?;
        if values.is_empty() {
            return Err(Error::misuse("the view shows no holder"));
        }
        let ends = |place| {
            let (names, values) = (&names, &values);
            async move {
                let mut is_freed = false;
                for value in values {
                    is_freed |= end(place, names, value).await?;
                }
                Ok::<_, Reason>(is_freed)
            }
        };
        let ended = all(self.engine.places().iter().map(ends)).await;
        let (mut freed, mut failures) = (Vec::new(), Vec::new());
        for (place, ended) in self.engine.places().iter().zip(ended) {
            let server = address(place, &names);
            match ended {
                Ok(true) => freed.push(server),
                Ok(false) => {}
                Err(reason) => failures.push(ServerFailure::new(server, &reason)),
            }
        }
        Ok(Broken { freed, failures, quorum: self.engine.quorum().needed() })
    }

    /// What the servers said of a lock, in their order.
    pub(super) fn view(&self, names: &Names, looked: Vec<Looked>) -> LockView {
        let places = self.engine.places().iter();
        let looked = places.map(|place| address(place, names)).zip(looked).collect();
        let name = names.lock()[self.defaults.prefix.len()..].to_vec();
        merge(name, self.engine.quorum(), self.engine.fingerprint(), looked)
    }
}

/// Of the server that has to do with this lock now.
fn address(place: &Place, names: &Names) -> String {
    place.node(place.slot(names.lock())).endpoint().address.to_string()
}
