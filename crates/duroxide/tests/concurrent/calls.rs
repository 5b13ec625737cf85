//! The calls, from a seed.

/// Instances that the calls are about.
const INSTANCES: u64 = 3;

/// One call of a client. Fetched turns and work items are the client's own: it acks or gives back its latest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Call {
    Start { instance: u64 },
    Raise { instance: u64, data: u64 },
    Cancel { instance: u64 },
    FetchTurn,
    AckTurn(TurnEnd),
    AbandonTurn,
    FetchWork,
    AckWork { data: u64 },
    AbandonWork,
    ReadStatus { instance: u64 },
    ReadHistory { instance: u64 },
    ReadValue { instance: u64 },
    Delete { instance: u64 },
    List,
}

/// How a turn goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnEnd {
    /// It schedules an activity, sets a value, and sends an event to the next instance.
    GoesOn {
        data: u64,
    },
    Completes,
    ContinuesAsNew,
}

impl Call {
    /// All kinds.
    pub(crate) const KINDS: [&'static str; 14] = [
        "start",
        "raise",
        "cancel",
        "fetch turn",
        "ack turn",
        "abandon turn",
        "fetch work",
        "ack work",
        "abandon work",
        "read status",
        "read history",
        "read value",
        "delete",
        "list",
    ];

    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Start { .. } => "start",
            Self::Raise { .. } => "raise",
            Self::Cancel { .. } => "cancel",
            Self::FetchTurn => "fetch turn",
            Self::AckTurn(_) => "ack turn",
            Self::AbandonTurn => "abandon turn",
            Self::FetchWork => "fetch work",
            Self::AckWork { .. } => "ack work",
            Self::AbandonWork => "abandon work",
            Self::ReadStatus { .. } => "read status",
            Self::ReadHistory { .. } => "read history",
            Self::ReadValue { .. } => "read value",
            Self::Delete { .. } => "delete",
            Self::List => "list",
        }
    }

    /// A client's calls. What it fetched it mostly goes on with.
    pub(crate) fn program(random: &mut Random, length: usize) -> Vec<Self> {
        let mut calls: Vec<Self> = Vec::new();
        while calls.len() < length {
            let goes_on = random.below(3) > 0;
            let data = random.below(1_000_000);
            let next = match calls.last() {
                None if goes_on => Self::Start { instance: data % INSTANCES },
                Some(Self::Start { .. }) if goes_on => Self::FetchTurn,
                Some(Self::FetchTurn) if goes_on && data.is_multiple_of(4) => Self::AbandonTurn,
                Some(Self::FetchTurn) if goes_on => Self::AckTurn(TurnEnd::GoesOn { data }),
                Some(Self::AbandonTurn) if goes_on => Self::FetchTurn,
                Some(Self::AckTurn(TurnEnd::GoesOn { .. })) if goes_on => Self::FetchWork,
                Some(Self::FetchWork) if goes_on && data.is_multiple_of(3) => Self::AbandonWork,
                Some(Self::FetchWork) if goes_on => Self::AckWork { data },
                Some(_) | None => Self::random(random),
            };
            calls.push(next);
        }
        calls
    }

    fn random(random: &mut Random) -> Self {
        let instance = random.below(INSTANCES);
        let data = random.below(1_000_000);
        match random.below(40) {
            0..7 => Self::Start { instance },
            7..11 => Self::Raise { instance, data },
            11 => Self::Cancel { instance },
            12..19 => Self::FetchTurn,
            19..25 => match random.below(5) {
                0 => Self::AckTurn(TurnEnd::Completes),
                1 => Self::AckTurn(TurnEnd::ContinuesAsNew),
                _ => Self::AckTurn(TurnEnd::GoesOn { data }),
            },
            25 => Self::AbandonTurn,
            26..29 => Self::FetchWork,
            29..31 => Self::AckWork { data },
            31 => Self::AbandonWork,
            32..34 => Self::ReadStatus { instance },
            34..36 => Self::ReadHistory { instance },
            36 => Self::ReadValue { instance },
            37 => Self::Delete { instance },
            _ => Self::List,
        }
    }
}

/// SplitMix64.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0xd134_2543_de82_ef95))
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (value ^ (value >> 31)) % limit
    }
}
