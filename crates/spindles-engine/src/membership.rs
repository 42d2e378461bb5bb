//! Decides every change of an array's devices, as a whole, before anything is changed: `decide` is
//! the table. The engine asks it for each command, and drivers ask it before they open, clear or
//! attach a device. `docs/design/states.md` prints it.

use crate::output::CommandError;
use crate::role::Role;
use spindles_block::{MemberIndex, MemberSet};

/// A change of an array's devices. `device` is the role of the added device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Put a member out.
    Fail(Role),
    /// Close the device of a member that is out.
    Release(Role),
    /// Return a member that was out to its position, and update the member with the writes that it
    /// missed.
    Return {
        /// The position.
        member: MemberIndex,
        /// The current role of its device.
        device: Role,
    },
    /// Fill a device that takes the position of a missing member.
    Rebuild {
        /// The position.
        member: MemberIndex,
        /// The current role of the device.
        device: Role,
    },
    /// Fill a device that takes a position added by a growth.
    Add {
        /// The position.
        member: MemberIndex,
        /// The current role of the device.
        device: Role,
    },
    /// Copy a member onto a device that takes its position.
    Replace {
        /// The member.
        old: Role,
        /// The current role of the device.
        device: Role,
    },
    /// Keep a device as a spare.
    AddSpare(Role),
    /// Stop keeping a spare.
    RemoveSpare(Role),
    /// Close the array, change its superblocks, and open it again: to begin a growth, or to change
    /// its journal, its name or its settings. A `device` may be added.
    Restructure {
        /// The current role of the device.
        device: Role,
        /// True if the change affects the map or the journal, which a growing array can't change.
        moves: bool,
    },
    /// Close the array for good.
    Close,
}

/// How to carry out a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// The member goes out.
    PutOut(MemberIndex),
    /// The member goes out. The device onto which it was being copied takes its position and is
    /// filled.
    PutOutAndFill(MemberIndex),
    /// The device is closed.
    Release,
    /// The device takes the position, and is filled.
    Fill(MemberIndex),
    /// The device gets the contents of the member, and then the position.
    Copy(MemberIndex),
    /// The device becomes a spare.
    Keep,
    /// The device is a spare no longer.
    Forget,
    /// The array is closed and opened again. Devices being filled continue from their marks.
    Reopen,
    /// The array is closed. A running copy ends, and devices about to take positions do not.
    Close,
}

/// The stage of a growth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growing {
    /// The array does not grow.
    No,
    /// No block was moved yet. These positions wait for the devices that the growth adds.
    Begins(MemberSet),
    /// A part of the array uses the new map.
    Moves,
}

/// The state of an array, as far as changes of its devices depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says one thing about the array"
)]
pub struct Membership {
    /// Number of positions.
    pub members: u8,
    /// True if the array is open read-only.
    pub read_only: bool,
    /// True if the array has superblocks.
    pub superblocks: bool,
    /// True if the array has bitmaps, which record the regions that a member missed.
    pub bitmaps: bool,
    /// True if the array is closed, or is being closed.
    pub closing: bool,
    /// True if more members are missing than the level survives.
    pub failed: bool,
    /// True if the array takes no more writes in this opening.
    pub stopped: bool,
    /// Positions without a device.
    pub missing: MemberSet,
    /// Missing positions that a device is about to take.
    pub joining: MemberSet,
    /// Positions of devices being filled.
    pub filling: MemberSet,
    /// Members whose loss the array survives, one at a time, in addition to those already lost.
    pub dispensable: MemberSet,
    /// The position that the device beyond all positions is for. Its member is being copied onto
    /// that device, or went out meanwhile.
    pub beside: Option<MemberIndex>,
    /// True if the copy is complete and the two devices have changed places, but not all
    /// superblocks say so.
    pub hands_over: bool,
    /// The stage of its growth.
    pub growing: Growing,
}

impl Membership {
    /// Returns the role of the device in a position, or of the one beyond all positions.
    #[must_use]
    pub fn role_of(&self, member: MemberIndex) -> Role {
        if member.0 >= self.members {
            return match self.beside {
                Some(member) if self.hands_over => Role::Replaced(member),
                Some(member) if self.joining.contains(member) => Role::Joining(member),
                Some(member) => Role::Replacement(member),
                None => Role::Stranger,
            };
        }
        if self.joining.contains(member) && self.beside != Some(member) {
            Role::Joining(member)
        } else if self.missing.contains(member) {
            Role::Out(member)
        } else if self.filling.contains(member) {
            Role::Filling(member)
        } else {
            Role::Active(member)
        }
    }

    /// Decides whether and how to carry out a change. Has no side effects.
    ///
    /// # Errors
    ///
    /// The reason why the array refuses the change in this state.
    pub fn decide(&self, change: Change) -> Result<Plan, CommandError> {
        match change {
            // These write nothing to the members.
            Change::Release(role) => release(role),
            Change::RemoveSpare(role) => forget(role),
            Change::Close => Ok(Plan::Close),
            Change::Fail(_)
            | Change::Return { .. }
            | Change::Rebuild { .. }
            | Change::Add { .. }
            | Change::Replace { .. }
            | Change::AddSpare(_)
            | Change::Restructure { .. } => {
                if self.read_only {
                    return Err(CommandError::ReadOnly);
                }
                if self.closing {
                    return Err(CommandError::Closing);
                }
                self.decide_write(change)
            }
        }
    }

    /// Decides a change that writes to the members, for an array that may be written.
    fn decide_write(&self, change: Change) -> Result<Plan, CommandError> {
        match change {
            Change::Fail(role) => self.put_out(role),
            Change::Return { member, device } => {
                self.is_persistent()?;
                if !self.bitmaps {
                    return Err(CommandError::Unsuitable);
                }
                self.fill(member, device)
            }
            Change::Rebuild { member, device } => {
                if let Growing::Begins(added) = self.growing
                    && added.contains(member)
                {
                    return Err(CommandError::GrowthPlace);
                }
                self.fill(member, device)
            }
            Change::Add { member, device } => self.fill(member, device),
            Change::Replace { old, device } => self.copy(old, device),
            Change::AddSpare(device) => {
                takes(device)?;
                Ok(Plan::Keep)
            }
            Change::Restructure { device, moves } => self.reopen(device, moves),
            Change::Release(_) | Change::RemoveSpare(_) | Change::Close => self.decide(change),
        }
    }

    fn is_persistent(&self) -> Result<(), CommandError> {
        if self.superblocks {
            Ok(())
        } else {
            Err(CommandError::NoSuperblocks)
        }
    }

    fn is_writable(&self) -> Result<(), CommandError> {
        if self.failed {
            return Err(CommandError::BeyondTolerance);
        }
        if self.stopped {
            return Err(CommandError::Stopped);
        }
        Ok(())
    }

    fn put_out(&self, role: Role) -> Result<Plan, CommandError> {
        let member = match role {
            Role::Active(member) | Role::Filling(member) if member.0 < self.members => member,
            Role::Joining(_) | Role::Replacement(_) | Role::Replaced(_) | Role::Journal => {
                return Err(CommandError::InUse(role));
            }
            Role::Out(member) if member.0 < self.members => return Err(CommandError::AlreadyOut),
            Role::Active(_) | Role::Filling(_) | Role::Out(_) | Role::Spare | Role::Stranger => {
                return Err(CommandError::NoSuchMember);
            }
        };
        if self.missing.contains(member) {
            return Err(CommandError::AlreadyOut);
        }
        if !self.dispensable.contains(member) {
            return Err(CommandError::BeyondTolerance);
        }
        if self.stopped {
            return Err(CommandError::Stopped);
        }
        if self.beside == Some(member) && !self.hands_over {
            return Ok(Plan::PutOutAndFill(member));
        }
        Ok(Plan::PutOut(member))
    }

    fn fill(&self, member: MemberIndex, device: Role) -> Result<Plan, CommandError> {
        if member.0 >= self.members {
            return Err(CommandError::NoSuchMember);
        }
        self.is_persistent()?;
        if !self.missing.contains(member) {
            return Err(CommandError::NotMissing);
        }
        self.is_writable()?;
        if self.joining.contains(member) {
            return Err(CommandError::Joining);
        }
        takes(device)?;
        Ok(Plan::Fill(member))
    }

    fn copy(&self, old: Role, device: Role) -> Result<Plan, CommandError> {
        let member = match old {
            Role::Active(member) if member.0 < self.members && self.role_of(member) == old => {
                member
            }
            Role::Filling(_) | Role::Out(_) | Role::Joining(_) => {
                return Err(CommandError::NotActive);
            }
            Role::Replacement(_) | Role::Replaced(_) | Role::Journal => {
                return Err(CommandError::InUse(old));
            }
            Role::Active(member) if member.0 < self.members => return Err(CommandError::NotActive),
            Role::Active(_) | Role::Spare | Role::Stranger => {
                return Err(CommandError::NoSuchMember);
            }
        };
        self.is_persistent()?;
        self.is_writable()?;
        if self.growing != Growing::No {
            return Err(CommandError::Growing); // A copy would miss moved blocks.
        }
        if let Some(member) = self.beside {
            return Err(CommandError::Replacing(member));
        }
        takes(device)?;
        Ok(Plan::Copy(member))
    }

    /// Refuses while a copy runs or a device waits to join: the close would end both.
    fn reopen(&self, device: Role, moves: bool) -> Result<Plan, CommandError> {
        self.is_persistent()?;
        if let Some(member) = self.beside {
            return Err(CommandError::Replacing(member));
        }
        if !self.joining.is_empty() {
            return Err(CommandError::Joining);
        }
        if moves {
            self.is_writable()?;
            if self.growing != Growing::No {
                return Err(CommandError::Growing);
            }
        }
        takes(device)?;
        Ok(Plan::Reopen)
    }
}

/// Returns an error if a device to add is in use.
fn takes(device: Role) -> Result<(), CommandError> {
    if device.is_used() {
        return Err(CommandError::InUse(device));
    }
    Ok(())
}

fn release(role: Role) -> Result<Plan, CommandError> {
    match role {
        Role::Out(_) => Ok(Plan::Release),
        Role::Stranger | Role::Spare => Err(CommandError::NoSuchMember),
        used => Err(CommandError::InUse(used)),
    }
}

fn forget(role: Role) -> Result<Plan, CommandError> {
    if role.is_used() {
        return Err(CommandError::InUse(role));
    }
    Ok(Plan::Forget)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{format, string::String, vec, vec::Vec};

    const A: MemberIndex = MemberIndex(0);
    const B: MemberIndex = MemberIndex(1);
    const NONE: MemberSet = MemberSet::EMPTY;

    /// An idle array with two copies: either may go while both are there.
    fn idle() -> Membership {
        Membership {
            members: 2,
            read_only: false,
            superblocks: true,
            bitmaps: true,
            closing: false,
            failed: false,
            stopped: false,
            missing: NONE,
            joining: NONE,
            filling: NONE,
            dispensable: MemberSet::all(2),
            beside: None,
            hands_over: false,
            growing: Growing::No,
        }
    }

    /// The states of the printed table. Member 1 is the affected one.
    fn states() -> Vec<(&'static str, Membership)> {
        let one = NONE.with(B);
        let degraded = Membership {
            missing: one,
            dispensable: one,
            ..idle()
        };
        let filling = Membership {
            missing: NONE,
            filling: one,
            ..degraded
        };
        let replacing = Membership {
            beside: Some(B),
            ..idle()
        };
        let joining = Membership {
            joining: one,
            ..degraded
        };
        vec![
            ("idle", idle()),
            ("degraded", degraded),
            ("on its way", joining),
            ("rebuilding, filling", filling),
            ("replacing", replacing),
            (
                "handing over",
                Membership {
                    hands_over: true,
                    ..replacing
                },
            ),
            (
                "member out while replaced",
                Membership {
                    beside: Some(B),
                    ..joining
                },
            ),
            (
                "growth begins",
                Membership {
                    growing: Growing::Begins(one),
                    dispensable: MemberSet::all(2),
                    ..degraded
                },
            ),
            (
                "growing",
                Membership {
                    growing: Growing::Moves,
                    ..idle()
                },
            ),
            (
                "failing",
                Membership {
                    missing: MemberSet::all(2),
                    dispensable: NONE,
                    failed: true,
                    ..idle()
                },
            ),
            (
                "closing, reopened",
                Membership {
                    closing: true,
                    ..idle()
                },
            ),
            (
                "reading only",
                Membership {
                    read_only: true,
                    ..idle()
                },
            ),
        ]
    }

    fn roles() -> [Role; 13] {
        [
            Role::Stranger,
            Role::Active(A),
            Role::Active(B),
            Role::Filling(B),
            Role::Joining(B),
            Role::Out(A),
            Role::Out(B),
            Role::Replacement(B),
            Role::Replaced(B),
            Role::Spare,
            Role::Journal,
            Role::Active(MemberIndex(2)),
            Role::Out(MemberIndex(2)),
        ]
    }

    /// Every change, with every device.
    fn changes() -> Vec<Change> {
        let mut changes = vec![Change::Close];
        for device in roles() {
            changes.extend([
                Change::Fail(device),
                Change::Release(device),
                Change::AddSpare(device),
                Change::RemoveSpare(device),
            ]);
            for moves in [false, true] {
                changes.push(Change::Restructure { device, moves });
            }
            for member in (0..3).map(MemberIndex) {
                changes.extend([
                    Change::Return { member, device },
                    Change::Rebuild { member, device },
                    Change::Add { member, device },
                ]);
            }
            for old in roles() {
                changes.push(Change::Replace { old, device });
            }
        }
        changes
    }

    /// Every state of two positions, legal or not.
    fn all_states() -> Vec<Membership> {
        let mut all = Vec::new();
        let sets = || (0..4).map(MemberSet::from_bits);
        for (missing, joining, filling) in sets()
            .flat_map(|missing| sets().map(move |joining| (missing, joining)))
            .flat_map(|(missing, joining)| sets().map(move |filling| (missing, joining, filling)))
        {
            let one_place =
                joining.difference(missing).is_empty() && filling.intersection(missing).is_empty();
            if !one_place {
                continue;
            }
            for beside in [None, Some(A), Some(B)] {
                for growing in [Growing::No, Growing::Begins(NONE.with(B)), Growing::Moves] {
                    for bits in 0..1_u32 << 8 {
                        let is = |bit: u32| bits >> bit & 1 == 1;
                        all.push(Membership {
                            members: 2,
                            read_only: is(0),
                            superblocks: is(1),
                            bitmaps: is(2),
                            closing: is(3),
                            failed: is(4),
                            stopped: is(5),
                            missing,
                            joining,
                            filling,
                            dispensable: MemberSet::all(if is(6) { 2 } else { 0 }),
                            beside,
                            hands_over: is(7),
                            growing,
                        });
                    }
                }
            }
        }
        all
    }

    /// Returns the role of the device that the change adds or names.
    fn device_of(change: Change) -> Role {
        match change {
            Change::Fail(role)
            | Change::Release(role)
            | Change::AddSpare(role)
            | Change::RemoveSpare(role) => role,
            Change::Return { device, .. }
            | Change::Rebuild { device, .. }
            | Change::Add { device, .. }
            | Change::Replace { device, .. }
            | Change::Restructure { device, .. } => device,
            Change::Close => Role::Stranger,
        }
    }

    /// Checks every change in every state: a position has one device, a device has one role, and
    /// the array can record its promises.
    #[test]
    fn no_plan_harms_another() {
        let changes = changes();
        for state in all_states() {
            for &change in &changes {
                let Ok(plan) = state.decide(change) else {
                    continue;
                };
                let why = || format!("{change:?} gives {plan:?} in {state:?}");
                let is_open = !state.read_only && !state.closing;
                let is_writable = is_open && state.superblocks && !state.failed && !state.stopped;
                let is_free = !device_of(change).is_used();
                let is_legal = match plan {
                    Plan::PutOut(member) | Plan::PutOutAndFill(member) => {
                        let fills = state.beside == Some(member) && !state.hands_over;
                        is_open
                            && !state.stopped
                            && !state.missing.contains(member)
                            && state.dispensable.contains(member)
                            && fills == matches!(plan, Plan::PutOutAndFill(_))
                    }
                    Plan::Release => matches!(change, Change::Release(Role::Out(_))),
                    Plan::Fill(member) => {
                        let begins = |member| match state.growing {
                            Growing::Begins(added) => added.contains(member),
                            _ => false,
                        };
                        let keeps = matches!(change, Change::Rebuild { .. }) && begins(member);
                        is_writable
                            && is_free
                            && !keeps
                            && state.missing.contains(member)
                            && !state.joining.contains(member)
                            && (state.bitmaps || !matches!(change, Change::Return { .. }))
                    }
                    Plan::Copy(member) => {
                        is_writable
                            && is_free
                            && state.beside.is_none()
                            && state.growing == Growing::No
                            && state.role_of(member) == Role::Active(member)
                    }
                    Plan::Keep => is_open && is_free,
                    Plan::Forget => is_free,
                    Plan::Reopen => {
                        let moves = matches!(change, Change::Restructure { moves: true, .. });
                        is_open
                            && is_free
                            && state.beside.is_none()
                            && state.joining.is_empty()
                            && (!moves || state.growing == Growing::No)
                    }
                    Plan::Close => change == Change::Close,
                };
                assert!(is_legal, "{}", why());
            }
        }
    }

    fn cell(decided: Result<Plan, CommandError>) -> String {
        let word = match decided {
            Ok(plan) => match plan {
                Plan::PutOut(_) => "**out**",
                Plan::PutOutAndFill(_) => "**out, fill**",
                Plan::Release => "**release**",
                Plan::Fill(_) => "**fill**",
                Plan::Copy(_) => "**copy**",
                Plan::Keep => "**keep**",
                Plan::Forget => "**forget**",
                Plan::Reopen => "**reopen**",
                Plan::Close => "**close**",
            },
            Err(refusal) => match refusal {
                CommandError::NoSuchMember => "no member",
                CommandError::AlreadyOut => "is out",
                CommandError::BeyondTolerance => "tolerance",
                CommandError::ReadOnly => "read only",
                CommandError::NotMissing => "not missing",
                CommandError::NotActive => "not active",
                CommandError::Joining => "joins",
                CommandError::Closing => "closes",
                CommandError::Replacing(_) => "copies",
                CommandError::InUse(_) => "in use",
                CommandError::GrowthPlace => "growth's",
                CommandError::Growing => "grows",
                other => panic!("{other:?} is no answer of the table"),
            },
        };
        String::from(word)
    }

    /// Returns the table. In each state, devices have the roles given by that state.
    fn table() -> String {
        type Row = (&'static str, fn(&Membership) -> Option<Change>);
        let rows: [Row; 17] = [
            ("fail member 0", |it| Some(Change::Fail(it.role_of(A)))),
            ("fail member 1", |it| Some(Change::Fail(it.role_of(B)))),
            ("fail the replacement", |it| {
                it.beside.map(|_| Change::Fail(it.role_of(MemberIndex(2))))
            }),
            ("remove member 0", |it| Some(Change::Release(it.role_of(A)))),
            ("remove member 1", |it| Some(Change::Release(it.role_of(B)))),
            ("remove the replacement", |it| {
                it.beside
                    .map(|_| Change::Release(it.role_of(MemberIndex(2))))
            }),
            ("add member 1 again", |it| {
                let device = it.role_of(B);
                Some(Change::Return { member: B, device })
            }),
            ("rebuild member 1 onto a device", |_| {
                let device = Role::Stranger;
                Some(Change::Rebuild { member: B, device })
            }),
            ("rebuild member 1 onto the replacement", |it| {
                let device = it.role_of(it.beside.map(|_| MemberIndex(2))?);
                Some(Change::Rebuild { member: B, device })
            }),
            ("a spare takes member 1's place", |_| {
                let device = Role::Spare;
                Some(Change::Rebuild { member: B, device })
            }),
            ("grow by a device as member 1", |it| {
                let device = Role::Stranger;
                matches!(it.growing, Growing::Begins(_))
                    .then_some(Change::Add { member: B, device })
            }),
            ("replace member 0", |it| {
                let (old, device) = (it.role_of(A), Role::Stranger);
                Some(Change::Replace { old, device })
            }),
            ("replace member 1", |it| {
                let (old, device) = (it.role_of(B), Role::Stranger);
                Some(Change::Replace { old, device })
            }),
            ("spare add", |_| Some(Change::AddSpare(Role::Stranger))),
            ("spare remove", |_| Some(Change::RemoveSpare(Role::Spare))),
            ("grow, journal add, journal remove", |_| {
                let (device, moves) = (Role::Stranger, true);
                Some(Change::Restructure { device, moves })
            }),
            ("close", |_| Some(Change::Close)),
        ];
        let states = states();
        let mut table = String::from("| change |");
        for (name, _) in &states {
            table = format!("{table} {name} |");
        }
        table += "\n|---|";
        table += &"---|".repeat(states.len());
        table += "\n";
        for (name, change) in rows {
            table = format!("{table}| {name} |");
            for (_, state) in &states {
                let decided = change(state).map(|change| cell(state.decide(change)));
                table = format!("{table} {} |", decided.unwrap_or_default());
            }
            table += "\n";
        }
        table
    }

    #[test]
    fn the_document_has_the_table() {
        let document = include_str!("membership.txt");
        let table = table();
        assert!(
            document.contains(&table),
            "membership.txt lacks this table:\n{table}"
        );
    }

    #[test]
    fn a_device_in_use_never_gets_another_part() {
        let changes = changes();
        for (name, state) in states() {
            for &change in &changes {
                let is_used = device_of(change).is_used();
                let comes = !matches!(change, Change::Fail(_));
                if is_used && comes {
                    assert!(state.decide(change).is_err(), "{change:?} while {name}");
                }
            }
        }
    }
}
