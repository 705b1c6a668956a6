//! Readers and writers over several servers, with no clock to lean on.

use super::super::sharing::{Bounds, Sharing};
use super::{finds, finds_nothing};
use crate::policy::mutants::{self, Mutant};

const THREE: Bounds = Bounds { quorum: 2, writers: 1, tokens: 2, losses: 0 };
const BOTH: &str = "a writer and another hold the lock";
const BELOW: &str = "a token is below one before it";

#[test]
fn a_writer_is_alone_and_tokens_are_in_order() {
    finds_nothing("sharing of 3", &Sharing::<3>::new(THREE), 1000);
    let bounds = Bounds { writers: 2, ..THREE };
    finds_nothing("sharing of 3, two writers", &Sharing::<3>::new(bounds), 1000);
}

#[test]
fn as_many_servers_forget_as_the_quorum_tolerates() {
    let bounds = Bounds { quorum: 3, losses: 1, ..THREE };
    finds_nothing("sharing of 3 of 4, k=1", &Sharing::<4>::new(bounds), 1000);
    let bounds = Bounds { losses: 2, ..bounds };
    finds("sharing of 3 of 4, k+1", &Sharing::<4>::new(bounds), BOTH);
    let bounds = Bounds { losses: 1, ..THREE };
    finds("sharing of 3, k+1", &Sharing::<3>::new(bounds), BOTH);
}

#[test]
fn each_known_bug_is_found() {
    let model = Sharing::<3>::new(THREE);
    mutants::set(Some(Mutant::ReadersNeedOneVote));
    finds("readers need one vote", &model, BOTH);
    mutants::set(Some(Mutant::ReadersTakeAnyToken));
    let bounds = Bounds { writers: 2, ..THREE };
    finds("readers take any token", &Sharing::<3>::new(bounds), BELOW);
    mutants::set(None);
}
