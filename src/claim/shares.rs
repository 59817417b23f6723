//! How slots and bytes are divided among the outboxes of a process: whoever has work gets its weight's part however much
//! the others have, and what somebody leaves is there for the rest. Arithmetic only; it waits for nobody.

/// Of its part an outbox without work keeps one in so many slots free, and at least one: it begins at once when work comes,
/// and is not kept waiting for the end of others' attempts.
const KEPT: usize = 16;

pub(super) struct Shares {
    slots: usize,
    bytes: usize,
    members: Vec<Member>,
}

#[derive(Debug, Default)]
struct Member {
    weight: usize,
    slots: usize,
    bytes: usize,
    /// Rows whose attempt is over while their verdict is on its way to the database; they hold no slot.
    settling: usize,
    /// Whether its last claim took all that it might.
    filled: bool,
    /// How many slots it waits for.
    waits_for: Option<usize>,
}

impl Member {
    /// Whether it would take more than it has.
    fn is_hungry(&self) -> bool {
        self.filled || self.waits_for.is_some()
    }
}

impl Shares {
    pub(super) fn new(slots: usize, bytes: usize, weights: &[u32]) -> Shares {
        let member = |weight: &u32| Member { weight: (*weight).max(1) as usize, ..Member::default() };
        Shares { slots, bytes, members: weights.iter().map(member).collect() }
    }

    pub(super) fn slots_for(&self, own: usize) -> usize {
        self.grant(own, self.slots, |member| member.slots)
    }

    pub(super) fn bytes_for(&self, own: usize) -> usize {
        self.grant(own, self.bytes, |member| member.bytes)
    }

    /// Of the whole what everybody's weight leaves to this one; at least one.
    pub(super) fn part_of(&self, own: usize, whole: usize) -> usize {
        let all: usize = self.members.iter().map(|member| member.weight).sum();
        (whole * self.members[own].weight).div_ceil(all.max(1))
    }

    pub(super) fn take(&mut self, own: usize, slots: usize, bytes: usize) {
        self.members[own].slots += slots;
        self.members[own].bytes += bytes;
    }

    pub(super) fn leave(&mut self, own: usize, slots: usize, bytes: usize) {
        let member = &mut self.members[own];
        member.slots = member.slots.saturating_sub(slots);
        member.bytes = member.bytes.saturating_sub(bytes);
    }

    /// Whether a row may leave its slot before its verdict is written. Of those as many may wait as it has slots by its weight:
    /// a database that takes no verdicts must not fill the memory with them.
    pub(super) fn begin_settling(&mut self, own: usize) -> bool {
        let may = self.members[own].settling < self.part_of(own, self.slots);
        self.members[own].settling += usize::from(may);
        may
    }

    pub(super) fn end_settling(&mut self, own: usize) {
        self.members[own].settling -= 1;
    }

    pub(super) fn note_filled(&mut self, own: usize, filled: bool) {
        self.members[own].filled = filled;
    }

    pub(super) fn wait(&mut self, own: usize, for_slots: Option<usize>) {
        self.members[own].waits_for = for_slots;
    }

    /// Whether there is what it waits for.
    pub(super) fn is_served(&self, own: usize, slots: usize) -> bool {
        self.slots_for(own) >= slots && self.bytes_for(own) > 0
    }

    /// Those whose wait is over.
    pub(super) fn served(&self) -> impl Iterator<Item = usize> {
        let waiting = self.members.iter().enumerate();
        waiting
            .filter(|(own, member)| member.waits_for.is_some_and(|slots| self.is_served(*own, slots)))
            .map(|(own, _)| own)
    }

    pub(super) fn held(&self, own: usize) -> usize {
        self.members[own].slots
    }

    /// Rows of one that are not settled yet, with a slot or without.
    pub(super) fn unsettled(&self, own: usize) -> usize {
        self.members[own].slots + self.members[own].settling
    }

    pub(super) fn all_unsettled(&self) -> usize {
        (0..self.members.len()).map(|own| self.unsettled(own)).sum()
    }

    /// How much of `total` this one may take now. Those without work are left what they hold and what they keep. The rest
    /// belongs to the hungry by weight: what one of them lacks of its part is not for others, what it lacks itself it may
    /// take, and beyond that what is left over.
    fn grant(&self, own: usize, total: usize, held: impl Fn(&Member) -> usize) -> usize {
        let others = || self.members.iter().enumerate().filter(|(other, _)| *other != own).map(|(_, member)| member);
        let kept = |member: &Member| self.kept(member, total);
        let idle = || others().filter(|member| !member.is_hungry());
        let hungry = || others().filter(|member| member.is_hungry());
        let free = total.saturating_sub(self.members.iter().map(&held).sum());
        let available = free.saturating_sub(idle().map(|member| kept(member).saturating_sub(held(member))).sum());

        let to_share = total.saturating_sub(idle().map(|member| held(member).max(kept(member))).sum());
        let weights = self.members[own].weight + hungry().map(|member| member.weight).sum::<usize>();
        let lacks = |member: &Member| {
            let entitled = (to_share * member.weight / weights).max(kept(member));
            entitled.saturating_sub(held(member))
        };
        let left_over = available.saturating_sub(hungry().map(lacks).sum());
        left_over.max(lacks(&self.members[own]).min(available))
    }

    fn kept(&self, member: &Member, total: usize) -> usize {
        if self.members.len() == 1 {
            return 0;
        }
        let all: usize = self.members.iter().map(|member| member.weight).sum();
        (total * member.weight / all / KEPT).max(1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all_held(shares: &Shares) -> usize {
        shares.members.iter().map(|member| member.slots).sum()
    }

    fn shares(slots: usize, weights: &[u32]) -> Shares {
        Shares::new(slots, 1 << 30, weights)
    }

    /// Takes as much as it may, again and again, as whoever has work without end does.
    fn fill(shares: &mut Shares, own: usize) {
        shares.note_filled(own, true);
        while let some @ 1.. = shares.slots_for(own) {
            shares.take(own, some, 0);
        }
    }

    /// Attempts of `of` end one by one, and everybody with work takes what is granted.
    fn churn(shares: &mut Shares, hungry: &[usize], rounds: usize) {
        for _ in 0..rounds {
            for &own in hungry {
                if shares.held(own) > 0 {
                    shares.leave(own, 1, 0);
                }
                // The one whose attempt ended asks last, and still no one is short of its part for long.
                for &asks in hungry.iter().rev() {
                    let granted = shares.slots_for(asks);
                    shares.take(asks, granted, 0);
                }
            }
        }
    }

    #[test]
    fn the_only_outbox_may_have_everything() {
        let mut shares = shares(256, &[3]);
        assert_eq!((shares.slots_for(0), shares.bytes_for(0), shares.part_of(0, 100)), (256, 1 << 30, 100));
        shares.take(0, 200, 0);
        shares.note_filled(0, true);
        assert_eq!(shares.slots_for(0), 56);
        fill(&mut shares, 0);
        assert_eq!((shares.slots_for(0), shares.held(0)), (0, 256));
    }

    #[test]
    fn who_works_alone_has_all_but_what_the_others_begin_with() {
        let mut shares = shares(256, &[1, 1]);
        fill(&mut shares, 0);
        assert_eq!(shares.held(0), 248);
        assert_eq!(shares.slots_for(1), 8, "it begins at once");
        let mut few = self::shares(4, &[1, 1]);
        fill(&mut few, 0);
        assert_eq!((few.held(0), few.slots_for(1)), (3, 1));
    }

    #[test]
    fn whoever_comes_to_a_full_house_gets_its_part_as_slots_come_free_and_no_more() {
        for (weights, parts) in [([1, 1], [128, 128]), ([1, 3], [64, 192]), ([3, 1], [192, 64])] {
            let mut shares = shares(256, &weights);
            fill(&mut shares, 0);
            fill(&mut shares, 1);
            churn(&mut shares, &[0, 1], 300);
            let held = [shares.held(0), shares.held(1)];
            for (held, part) in held.iter().zip(parts) {
                assert!(held.abs_diff(part) <= 1, "{held:?} by {weights:?}");
            }
            assert_eq!(held[0] + held[1], 256, "nothing is left idle");
        }
    }

    #[test]
    fn what_one_cannot_use_is_for_the_others() {
        let mut shares = shares(256, &[1, 1, 2]);
        // The third has a little work, in slow attempts; its claims come back with less than they might have.
        shares.take(2, 10, 0);
        fill(&mut shares, 0);
        fill(&mut shares, 1);
        churn(&mut shares, &[0, 1], 300);
        assert_eq!(shares.held(0) + shares.held(1), 256 - 10);
        assert!(shares.held(0).abs_diff(shares.held(1)) <= 1);
    }

    #[test]
    fn who_waits_is_served_before_those_who_have_their_part() {
        let mut shares = shares(100, &[1, 1]);
        // It took much while it was alone, in attempts that last; then it has none, and the other fills the house.
        shares.take(1, 70, 0);
        fill(&mut shares, 0);
        assert_eq!((shares.held(0), shares.slots_for(1)), (30, 0));
        shares.wait(1, Some(1));
        assert!(shares.served().next().is_none());
        // Two of its own end: one without it having less than its part, which is the other's.
        shares.leave(1, 1, 0);
        assert_eq!(shares.slots_for(0), 1);
        shares.leave(1, 30, 0);
        assert_eq!((shares.slots_for(1), shares.served().collect::<Vec<_>>()), (11, vec![1]));
    }

    #[test]
    fn bytes_are_shared_like_slots() {
        let mut shares = Shares::new(100, 1000, &[1, 1]);
        shares.note_filled(0, true);
        shares.take(0, 1, shares.bytes_for(0));
        assert_eq!((shares.bytes_for(0), shares.bytes_for(1)), (0, 31));
        assert!(!shares.is_served(0, 1) && shares.is_served(1, 1));
    }

    proptest! {
        /// Whatever was taken and left: grants never add up to more than is free, nobody keeps a slot from somebody who
        /// lacks his part, and while one has work no more is idle than what the others begin with.
        #[test]
        fn no_grant_is_too_large_and_none_too_small(
            slots in 8usize..300,
            weights in prop::collection::vec(1u32..5, 1..4),
            steps in prop::collection::vec((0usize..4, 0usize..40, any::<bool>(), any::<bool>()), 0..60),
        ) {
            let mut shares = shares(slots, &weights);
            for (who, many, filled, takes) in steps {
                let own = who % weights.len();
                shares.note_filled(own, filled);
                match takes {
                    true => shares.take(own, many.min(shares.slots_for(own)), 0),
                    false => shares.leave(own, many.min(shares.held(own)), 0),
                }
                prop_assert!(all_held(&shares) <= slots);
                let kept: usize = (0..weights.len()).map(|other| shares.kept(&shares.members[other], slots)).sum();
                let some_hungry = (0..weights.len()).any(|other| shares.members[other].filled);
                let granted = (0..weights.len()).filter(|other| shares.members[*other].filled).map(|other| shares.slots_for(other));
                let free = slots - all_held(&shares);
                if some_hungry && free > kept {
                    prop_assert!(granted.max() > Some(0), "{free} are free and nobody may have them");
                }
            }
        }
    }
}
