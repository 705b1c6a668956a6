//! A command that a client with a known bug sends beside those of the library.

use std::sync::Arc;

use bytes::Bytes;
use leasehold_resp::Frame;
use tokio::time::sleep;

use super::server::Session;
use super::witness::{self, Asked};
use super::world::World;
use crate::policy::mutants::Mutant;

/// The counter's idle expiry, as the scripts have it.
const IDLE_MS: &[u8] = b"604800000";

/// Sets the counter to the token that was granted just now, some time later, whoever has the lock by
/// then.
pub(super) fn write_back(world: &Arc<World>, asked: Asked, words: &[Bytes], reply: &Frame) {
    if !Mutant::MaximumWrittenBackUnowned.is_on() {
        return;
    }
    let is_how = |word: &Bytes| matches!(&word[..], b"mint" | b"vote" | b"outbid");
    let proposed = words.windows(2).find(|pair| is_how(&pair[1])).map(|pair| &pair[0]);
    let counter = words.iter().find(|word| word.ends_with(b":fence"));
    let (Frame::Bulk(_stamp), Some(token), Some(counter)) = (reply, proposed, counter) else {
        return;
    };
    let words = [b"SET", &counter[..], token, b"PX", IDLE_MS].map(Bytes::copy_from_slice);
    let (world, latency) = (Arc::clone(world), world.latency());
    tokio::spawn(async move {
        sleep(latency).await;
        let mut session = Session::new(0);
        witness::run(&world, asked, &mut session, &words);
    });
}
