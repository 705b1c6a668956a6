/// What a server may have of an owner, by the questions that the server was asked.
///
/// Nothing is given back to a server that has nothing. So an owner that asks a server which runs no command for
/// minutes leaves nothing behind, and its releases do not add to what the server refuses already. Nor do releases
/// wait for a server that was away all the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Exposure {
    /// It was asked nothing, or has run nothing that it was asked.
    #[default]
    Untouched,
    /// It was asked one question.
    AskedOnce,
    /// It was asked several: it may have run one of those before the last.
    AskedAgain,
}

impl Exposure {
    /// Whether it has nothing of the owner.
    pub(crate) fn is_none(self) -> bool {
        self == Self::Untouched
    }

    /// It is about to be asked.
    pub(crate) fn ask(&mut self) {
        *self = match self {
            Self::Untouched => Self::AskedOnce,
            Self::AskedOnce | Self::AskedAgain => Self::AskedAgain,
        };
    }

    /// It has said that it did not run the last question: whether it has nothing of the owner.
    pub(crate) fn was_not_run(&mut self) -> bool {
        if *self == Self::AskedOnce {
            *self = Self::Untouched;
        }
        self.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_question_is_undone_by_a_server_that_did_not_run_it() {
        let mut exposure = Exposure::default();
        for _ in 0..3 {
            assert!(exposure.is_none());
            exposure.ask();
            assert!(!exposure.is_none());
            assert!(exposure.was_not_run());
        }
        exposure.ask();
        exposure.ask();
        assert!(!exposure.was_not_run() && !exposure.was_not_run());
        exposure.ask();
        assert!(!exposure.was_not_run());
    }
}
