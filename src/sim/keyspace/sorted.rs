//! Sorted sets, as far as scripts use them: scores are whole numbers.

use std::collections::BTreeMap;

use bytes::Bytes;
use leasehold_resp::Frame;

use super::{Entry, Keyspace, NO_INTEGER, Reply, SYNTAX, Value, WRONG_TYPE, count, integer};

/// A bound of a range of scores, as the lowest or highest score within it.
fn bound(text: &[u8], is_lowest: bool) -> Result<i64, String> {
    let wrong = || "ERR min or max is not a float".to_owned();
    match text {
        b"-inf" => Ok(i64::MIN),
        b"+inf" => Ok(i64::MAX),
        [b'(', number @ ..] => {
            let number = integer(number).ok_or_else(wrong)?;
            Ok(if is_lowest { number + 1 } else { number - 1 })
        }
        number => integer(number).ok_or_else(wrong),
    }
}

fn shown(score: i64) -> Frame {
    Frame::Bulk(score.to_string().into())
}

impl Keyspace {
    fn sorted(&mut self, key: &Bytes) -> Result<Option<&BTreeMap<Bytes, i64>>, String> {
        match self.read(key).map(|entry| &entry.value) {
            None => Ok(None),
            Some(Value::Sorted(members)) => Ok(Some(members)),
            Some(_) => Err(WRONG_TYPE.into()),
        }
    }

    /// The live members of a set, each of which ends at its score, without touching them.
    #[cfg(test)]
    pub(crate) fn peek_lasting(&self, key: &[u8]) -> Vec<(Bytes, i64)> {
        let now = self.now_ms();
        match self.entries.get(key).map(|entry| &entry.value) {
            Some(Value::Sorted(members)) => {
                let live = members.iter().filter(|(_, score)| **score >= now);
                live.map(|(member, score)| (member.clone(), *score)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The members by score, and those with equal scores by name.
    pub(super) fn members(&mut self, key: &Bytes) -> Result<Vec<(i64, Bytes)>, String> {
        let members = self.sorted(key)?.into_iter().flatten();
        let mut all: Vec<_> = members.map(|(member, score)| (*score, member.clone())).collect();
        all.sort();
        Ok(all)
    }

    pub(super) fn add_members(&mut self, key: &Bytes, scored: &[Bytes]) -> Reply {
        if scored.len() % 2 != 0 {
            return Err(SYNTAX.into());
        }
        let pair = |pair: &[Bytes]| Ok((integer(&pair[0]).ok_or(NO_INTEGER)?, pair[1].clone()));
        let scored = scored.chunks(2).map(pair).collect::<Result<Vec<_>, String>>()?;
        let expires_at = match self.live(key) {
            None => None,
            Some(Entry { value: Value::Sorted(_), expires_at }) => *expires_at,
            Some(_) => return Err(WRONG_TYPE.into()),
        };
        let fresh = || Entry { value: Value::Sorted(BTreeMap::new()), expires_at };
        let entry = self.entries.entry(key.clone()).or_insert_with(fresh);
        let Value::Sorted(members) = &mut entry.value else { unreachable!("it is sorted") };
        let added = scored
            .into_iter()
            .filter(|(score, member)| members.insert(member.clone(), *score).is_none());
        let added = added.count();
        self.change(key);
        Ok(count(added))
    }

    pub(super) fn score_of(&mut self, key: &Bytes, member: &Bytes) -> Reply {
        let score = self.sorted(key)?.and_then(|members| members.get(member));
        Ok(score.map_or(Frame::Null, |score| shown(*score)))
    }

    pub(super) fn count_members(&mut self, key: &Bytes, range: [&Bytes; 2]) -> Reply {
        let (from, to) = (bound(range[0], true)?, bound(range[1], false)?);
        let members = self.members(key)?;
        Ok(count(members.iter().filter(|(score, _)| (from..=to).contains(score)).count()))
    }

    /// `options` as in scripts: `WITHSCORES`, and `LIMIT` with two numbers.
    pub(super) fn members_between(
        &mut self,
        key: &Bytes,
        range: [&Bytes; 2],
        options: &[Bytes],
    ) -> Reply {
        let (from, to) = (bound(range[0], true)?, bound(range[1], false)?);
        let has_scores = options.first().is_some_and(|option| option == "WITHSCORES");
        let limit = match &options[usize::from(has_scores)..] {
            [] => usize::MAX,
            [limit, zero, most] if limit == "LIMIT" && zero == "0" => {
                usize::try_from(integer(most).ok_or(NO_INTEGER)?).unwrap_or(usize::MAX)
            }
            _ => return Err(SYNTAX.into()),
        };
        let members = self.members(key)?.into_iter();
        let found = members.filter(|(score, _)| (from..=to).contains(score)).take(limit);
        let told = found.flat_map(|(score, member)| {
            [Some(Frame::Bulk(member)), has_scores.then(|| shown(score))]
        });
        Ok(Frame::Array(told.flatten().collect()))
    }

    /// The last member and its score.
    pub(super) fn last_member(&mut self, key: &Bytes) -> Reply {
        let last = self.members(key)?.pop();
        let told =
            last.map_or_else(Vec::new, |(score, member)| vec![Frame::Bulk(member), shown(score)]);
        Ok(Frame::Array(told.into()))
    }

    pub(super) fn remove_members(&mut self, key: &Bytes, gone: &[Bytes]) -> Reply {
        self.live(key);
        let members = match self.entries.get_mut(key).map(|entry| &mut entry.value) {
            None => return Ok(count(0)),
            Some(Value::Sorted(members)) => members,
            Some(_) => return Err(WRONG_TYPE.into()),
        };
        let removed = gone.iter().filter(|member| members.remove(*member).is_some()).count();
        if members.is_empty() {
            self.entries.remove(key);
        }
        if removed > 0 {
            self.change(key);
        }
        Ok(count(removed))
    }
}
