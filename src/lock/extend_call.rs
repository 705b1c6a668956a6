//! What a script is told that has leases last for their TTL from now.

use leasehold_resp::Decimal;

use super::hold::Hold;
use super::names::{Key, Names};
use super::one_or_many::OneOrMany;
use super::parameters::Parameters;
use super::parting::count;

/// Leases of one kind that one command extends.
pub(super) struct ExtendCall<'a> {
    count: Decimal,
    leases: OneOrMany<Lease<'a>>,
    /// The keys of the shares, where it is these that are extended.
    beside: Vec<Key>,
}

struct Lease<'a> {
    names: &'a [Names],
    owner: &'a [u8],
    ttl: Decimal,
}

impl<'a> ExtendCall<'a> {
    /// That of what these holds, which are of one kind, have at a server.
    pub(super) fn of(holds: impl Iterator<Item = (&'a Hold, usize)>) -> Self {
        let (mut keys, mut beside) = (0, Vec::new());
        let leases = holds.map(|(hold, server)| {
            let names = hold.names_at(server);
            keys += names.len();
            if !hold.row().is_by_lock {
                beside.extend(names.iter().map(Names::shares));
            }
            Lease { names, owner: hold.owner.value(), ttl: hold.key_ms() }
        });
        let leases = leases.collect();
        Self { count: count(keys + beside.len()), leases, beside }
    }

    pub(super) fn parameters(&self) -> Parameters<'_> {
        let Self { count, leases, beside } = self;
        let mut parameters = Parameters::of_keys(count);
        let locks = leases.iter().flat_map(|lease| lease.names).map(Names::lock);
        if beside.is_empty() {
            parameters.extend(locks);
        } else {
            parameters.extend(locks.zip(beside).flat_map(|(lock, shares)| [lock, shares]));
        }
        for Lease { names, owner, ttl } in &leases[..] {
            names.iter().for_each(|_| parameters.extend([*owner, ttl]));
        }
        parameters
    }
}
