//! Known bugs of scripts, each put into its script.

use bytes::Bytes;

use crate::policy::mutants::Mutant;
pub(super) use crate::policy::mutants::present;

pub(super) type Bug = Option<Mutant>;

/// Each bug, the text that it replaces, and the new text.
const BUGS: [(Mutant, &str, &str); 25] = [
    (
        Mutant::ExtensionRecreatesALostKey,
        "if holder == ARGV[2 * lock - 1] then",
        "if not holder then
              redis.call('SET', KEYS[lock], ARGV[2 * lock - 1], 'PX', ARGV[2 * lock])
              holder = ARGV[2 * lock - 1]
            end
            if holder == ARGV[2 * lock - 1] then",
    ),
    (
        Mutant::ExtensionShortens,
        "redis.call('PEXPIRE', KEYS[lock], ARGV[2 * lock])",
        "redis.call('PEXPIRE', KEYS[lock], math.floor(ARGV[2 * lock] / 2))",
    ),
    (
        Mutant::ExtensionKeepsALaterEnd,
        "redis.call('PEXPIRE', KEYS[lock], ARGV[2 * lock])",
        "if redis.call('PTTL', KEYS[lock]) < tonumber(ARGV[2 * lock]) then
              redis.call('PEXPIRE', KEYS[lock], ARGV[2 * lock])
            end",
    ),
    (Mutant::QueueIsNotLeft, "if read[3] then", "if false then"),
    (
        Mutant::DeadEndTheSearch,
        "if looked >= 500 and not next.owner and first <= last then",
        "if looked == 16 and not next.owner and first <= last then
              redis.call('HSET', queue, 'first', string.format('%.0f', first))
              return {first = first, last = last}
            end
            if false then",
    ),
    (
        Mutant::TicketFromAnybody,
        "elseif string.sub(holder, 1, 32) ~= ARGV[5] then",
        "elseif false then",
    ),
    (Mutant::StealTakesAnyToken, "if token <= counter then", "if false then"),
    (Mutant::AnyClockIsBelieved, "if ahead > 1000000 and", "if false and"),
    // redis-semaphore 5.8.0
    (
        Mutant::PermitsEndByTheCallersTtl,
        "call('ZCOUNT', shares, whole(now), '+inf')",
        "call('ZCOUNT', shares, whole(now + (tonumber(ARGV[3]) or 0)), '+inf')",
    ),
    (Mutant::UpgradeBesideReaders, "not is_of(owner) and used > 1", "false"),
    // Redisson #7098
    (
        Mutant::EveryShareIsRenewed,
        "while limit ~= '0' and call('ZSCORE', shares, owner .. '#' .. more) do",
        "for _, its in ipairs(call('ZRANGEBYSCORE', shares, '-inf', '+inf')) do
              call('ZADD', shares, ends, its)
            end
            while limit ~= '0' and call('ZSCORE', shares, owner .. '#' .. more) do",
    ),
    (
        Mutant::SlotIsForgotten,
        "elseif slot < last or slot == last and ends == 0 then",
        "elseif false then",
    ),
    (Mutant::WorkedOnBesideAnother, "elseif ends > now then", "elseif false then"),
    (Mutant::ResultLastsForATtl, "ARGV[5], 'PX', ARGV[4])", "ARGV[5], 'PX', ARGV[3])"),
    (
        Mutant::AcceptedIsForgottenAtAPromise,
        "if under ~= '0' then",
        "if under ~= '0' and under == promise then",
    ),
    (Mutant::PartyCountsEachTime, "'p' .. ARGV[4], ''", "'p' .. ARGV[4] .. stamp, ''"),
    (
        Mutant::ArrivalsOutliveTheirGeneration,
        "redis.call('UNLINK', KEYS[1])
redis.call('SET', KEYS[2], parties .. string.format(' %.0f', meant)",
        "redis.call('SET', KEYS[2], parties .. string.format(' %.0f', meant)",
    ),
    (
        Mutant::SetBackClockRefills,
        "is_set_back and at + now - written or",
        "is_set_back and now or",
    ),
    (
        Mutant::MintedByTheCounterAlone,
        "local token = math.max(counter + 1, micros)",
        "local token = counter > 0 and counter + 1 or micros",
    ),
    (
        Mutant::StaleKeysStay,
        "not holder or type(holder) == 'string' and in_grace and is_raised[lock]",
        "not holder",
    ),
    (Mutant::AnyHolderTakesOver, "in_grace and is_raised[lock]", "in_grace"),
    (
        Mutant::RunAloneIsTheReign,
        "string.sub(marker, 1, #reign) == reign",
        "string.sub(marker, 1, #run) == run",
    ),
    (Mutant::EachBeginsTheReign, "if not began or", "if true or"),
    (
        Mutant::ReplicaIsMet,
        "return redis.error_reply('READONLY a replica does not reign')",
        "return {ARGV[1], run .. ' ' .. id .. ' 0', redis.call('TIME')[1] .. '000000'}",
    ),
    (
        Mutant::CountersPerServer,
        "local judged, ahead = args[4], proposal - top",
        "local judged, ahead = 'mint', -top
            proposal = 0",
    ),
];

/// The script, with the known bug if one is on.
pub(super) fn mutated(script: &Bytes) -> Bytes {
    match BUGS.iter().find(|(bug, ..)| bug.is_on()) {
        Some((_, from, to)) => String::from_utf8_lossy(script).replace(from, to).into(),
        None => script.clone(),
    }
}
