//! `spindles create`: makes an array by writing superblocks to devices.

use super::Command;
use super::set::DegradedWrites;
use crate::arrays;
use crate::documents::changes::{self, InitialSync, Overwritten, Unused};
use crate::failure::Usage;
use crate::operation::WriteBackMode;
use crate::plan;
use crate::served;
use crate::ui::Ui;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_admin::configuration::Configuration;
use spindles_admin::create::{CreateError, CreateOptions, Created, Sync, check_rights, create};
use spindles_admin::scan;
use spindles_admin::write_back::Wanted;
use spindles_array::lists::few;
use spindles_block::{BlockSize, SizeBytes};
use spindles_device::OpenOptions;
use spindles_device::identity::absolute;
use spindles_dialects::Shape;
use spindles_engine::{POLICIES, Policy};
use spindles_format::ChecksumKind;
use spindles_layout::{Expression, MISSING, Slice, chunk_blocks};
use std::collections::BTreeMap;

pub(crate) static COMMAND: Command = Command {
    name: "create",
    about: "Create an array from files or devices",
    details: "Checks all devices before it writes to the first. Without --force it does not \
              touch a device that holds a superblock, a partition table or a known file \
              system. The same goes for a file that holds anything but zeros. It refuses the \
              name of another array in the current folder, on block devices or where \
              SPINDLES_SCAN says. The name is allowed if the command overwrites all of that \
              array. Files must exist: truncate -s 1G a.img makes one.\n\n\
              Blocks that were never written read as zeros, and an array is ready at once. \
              Without bitmaps (--consistency none), the command first makes devices consistent \
              that are not known to hold zeros.\n\n\
              spindles create data 'raid5(a.img,b.img,c.img)'\n\
              spindles create safe 'raid5(a.img,b.img,c.img)' --spare d.img\n\
              spindles create fast 'raid10:far2(a.img,b.img,c.img)' --chunk 512K\n\
              spindles create big 'raid0(raid5(a,b,c),raid5(d,e,f))'\n\
              spindles create far 'raid1(a.img,nbd://host/export)'\n\
              spindles create big --from /etc/raid0.conf\n\
              spindles create --plan /dev/sdb /dev/sdc /dev/sdd 4T",
    hidden: false,
    arguments: |command| {
        let policies = POLICIES
            .iter()
            .map(|policy| format!("\n  {:<7} {}", policy.name, policy.about));
        let details = format!(
            "{}\n\nConsistency policies:{}",
            COMMAND.details,
            policies.collect::<String>()
        );
        Arguments::augment_args(command).after_help(details)
    },
    run,
};

#[derive(Args)]
struct Arguments {
    /// The name of the array
    #[arg(required_unless_present = "plan")]
    name: Option<String>,
    /// The array: raid5(a.img,b.img,c.img); arrays nest
    #[arg(value_name = "EXPR", required_unless_present_any = ["plan", "from"])]
    expression: Option<String>,
    /// The array is the one in this configuration of another system, or FILE#ARRAY if it has
    /// several: a new array on the same devices, with the chunk, spares and journal of the file
    #[arg(long, value_name = "FILE", conflicts_with = "expression")]
    from: Option<String>,
    /// Create nothing: show the arrays that these devices can become, with the command for each. A
    /// size, such as 4T, stands for a device that is still to be bought
    #[arg(
        long,
        value_name = "DEV",
        num_args = 1..,
        conflicts_with_all =
            ["name", "expression", "from", "spares", "journal", "layout", "force"],
    )]
    plan: Vec<String>,
    /// With --plan: rate per second at which a new device is filled, to estimate rebuild times
    #[arg(long, value_name = "SIZE", default_value = "100M", requires = "plan")]
    rate: SizeBytes,
    /// The chunk size, any multiple of the block [default: the level's]
    #[arg(long, value_name = "SIZE")]
    chunk: Option<SizeBytes>,
    /// How chunks are placed on the members, if the level has a choice
    #[arg(long, value_name = "NAME")]
    layout: Option<String>,
    /// Crash consistency policy [default: journal with parity or checksums, else resync]
    #[arg(long, value_name = "POLICY")]
    consistency: Option<String>,
    /// Checksum of every block: crc32c or none. Each read detects corruption and repairs it from
    /// redundancy. Requires --consistency journal [default: crc32c; none with another policy]
    #[arg(long, value_name = "KIND")]
    checksum: Option<String>,
    /// The unit in which the array is addressed: 512 or 4K
    #[arg(long, value_name = "SIZE", default_value = "4K")]
    block_size: SizeBytes,
    /// A spare device: it replaces a lost member automatically; may be given several times
    #[arg(long = "spare", value_name = "DEV")]
    spares: Vec<String>,
    /// A separate, fast device for the journal: the log for parity is kept there instead of on the
    /// members. If the device is lost, the members log, and nothing that was durable is lost
    #[arg(long, value_name = "DEV")]
    journal: Option<String>,
    /// Whether commands may write while absent members may hold newer data, which writing discards;
    /// see spindles set
    #[arg(long, value_name = "WHAT", default_value = "ask")]
    degraded_writes: DegradedWrites,
    /// Which small writes the array answers from a stage on its members, before they are in their
    /// places. For levels with parity on devices; see spindles set
    #[arg(long, value_name = "WHAT", default_value = "off")]
    write_back: WriteBackMode,
    /// The most bytes that the stage holds, in memory and on each member [default: 64M, or what
    /// the members have room for]
    #[arg(long, value_name = "SIZE")]
    write_back_size: Option<SizeBytes>,
    /// Overwrite what the devices hold
    #[arg(long)]
    force: bool,
}

fn policy(name: &str) -> anyhow::Result<&'static Policy> {
    Policy::by_name(name).ok_or_else(|| {
        let names: Vec<&str> = POLICIES.iter().map(|policy| policy.name).collect();
        Usage::error(format!(
            "--consistency {name}: there is no such policy; there are {}",
            names.join(", ")
        ))
    })
}

pub(super) fn checksum(name: &str) -> anyhow::Result<ChecksumKind> {
    ChecksumKind::by_name(name).ok_or_else(|| {
        let names = ChecksumKind::NAMES.map(|(_, name)| name);
        Usage::error(format!(
            "--checksum {name}: there is no such checksum; there are {}",
            names.join(", ")
        ))
    })
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let mut arguments = Arguments::from_arg_matches(matches)?;
    let described = arguments.from.as_deref().map(shape_of).transpose()?;
    if let Some((shape, _)) = &described {
        arguments.complete(shape, is_given(matches, "block_size"));
    }
    let options = options(&arguments)?;
    if !arguments.plan.is_empty() {
        return plan::show(&arguments.plan, arguments.rate, &options, ui);
    }
    let mut expression = if let Some((shape, notes)) = described {
        for note in notes {
            ui.note(note);
        }
        shape.expression
    } else {
        let expression = arguments.expression.as_deref().unwrap_or_default();
        Expression::parse(expression).map_err(Usage::error)?
    };
    if let Some(layout) = &arguments.layout {
        expression = expression.with_layout(layout).map_err(Usage::error)?;
    }

    let devices = devices(&expression, &arguments);
    check_rights(&devices)?;
    if options.force {
        served::check_no_spares(&devices)?;
    }
    scan::refuse_taken(&options.name, &[], |array| scan::lies_on(array, &devices))?;

    let mut on_progress = ui.until_interrupted("initial sync")?;
    let created = create(&expression, &options, &mut on_progress);
    drop(on_progress);
    // A new array has nothing to log only if the user asked for that.
    let created = created.map_err(|error| match error {
        CreateError::NoJournal { .. } | CreateError::Stage(_) => Usage::error(error),
        error => error.into(),
    })?;
    for note in expression.notes() {
        ui.note(note);
    }
    tell(&created, &expression, &arguments, ui);
    Ok(())
}

impl Arguments {
    /// Adds what a configuration says and the command line does not.
    fn complete(&mut self, shape: &Shape, is_block_size_given: bool) {
        if !is_block_size_given {
            let block_size = BlockSize::dividing(shape.chunk_bytes.unwrap_or(0));
            self.block_size = SizeBytes(block_size.bytes().into());
        }
        self.chunk = self.chunk.or(shape.chunk_bytes.map(SizeBytes));
        self.spares.extend(shape.spares.iter().cloned());
        self.journal = self.journal.take().or_else(|| shape.journal.clone());
    }
}

/// Returns true if the command line has an option, not only its default.
fn is_given(matches: &ArgMatches, option: &str) -> bool {
    matches.value_source(option) == Some(ValueSource::CommandLine)
}

/// Returns the only array of a configuration.
fn shape_of(file: &str) -> anyhow::Result<(Shape, Vec<String>)> {
    let configuration = Configuration::find(file)?.ok_or_else(|| {
        Usage::error(format!(
            "{file} is neither a file nor words of a dialect: see spindles translate"
        ))
    })?;
    let described = configuration.read(None, None)?;
    let array = described.only()?;
    let expression = array.for_new().clone();
    if expression.leaves().contains(&MISSING) {
        return Err(Usage::error(format!(
            "a member of {file} is missing, and a new array needs all: write {expression} with a \
             device in its place"
        )));
    }
    let shape = Shape {
        expression,
        ..array.shape
    };
    Ok((shape, described.notes()))
}

fn options(arguments: &Arguments) -> anyhow::Result<CreateOptions> {
    let block_size = u32::try_from(arguments.block_size.0).ok();
    let block_size = block_size.and_then(BlockSize::from_bytes).ok_or_else(|| {
        Usage::error(format!(
            "--block-size {}: a block is 512 or 4K",
            arguments.block_size.typed()
        ))
    })?;
    if let Some(chunk) = arguments.chunk {
        chunk_blocks(chunk.0, block_size)
            .map_err(|error| Usage::error(format!("--chunk {}: {error}", chunk.typed())))?;
    }
    let policy = arguments.consistency.as_deref().map(policy).transpose()?;
    Ok(CreateOptions {
        name: arguments.name.clone().unwrap_or_default(),
        block_size,
        chunk_bytes: arguments.chunk.map(|chunk| chunk.0),
        consistency: policy,
        checksum: arguments.checksum.as_deref().map(checksum).transpose()?,
        spares: arguments.spares.clone(),
        journal: arguments.journal.clone(),
        degraded_writes: arguments.degraded_writes.allowed(),
        write_back: Wanted {
            mode: arguments.write_back.into(),
            memory_bytes: arguments.write_back_size.map(|size| size.0),
        },
        force: arguments.force,
        open: OpenOptions::default(),
    })
}

/// All devices that the array gets.
fn devices<'a>(expression: &'a Expression, arguments: &'a Arguments) -> Vec<&'a str> {
    let others = arguments.spares.iter().chain(&arguments.journal);
    let others = others.map(String::as_str);
    expression.leaves().into_iter().chain(others).collect()
}

fn tell(created: &Created, expression: &Expression, arguments: &Arguments, ui: &Ui) {
    for (device, what) in &created.wiped {
        ui.line(format!("{device} held {what}, which was overwritten"));
    }
    ui.line(format!(
        "array '{}' created: {}, holds {}",
        created.name,
        arrays::shape(
            created.level.name,
            &created.layout,
            created.members.into(),
            created.chunk_bytes,
            created.block_bytes
        ),
        arrays::size(created.bytes),
    ));
    for (member, bytes) in &created.unused {
        ui.note(format!(
            "{} of {member} are not used: the smallest member decides",
            arrays::size(*bytes)
        ));
    }
    for warning in warnings(created, &devices(expression, arguments)) {
        ui.note(warning);
    }
    ui.line(sync_line(created.sync));
    if let Some(journal) = &arguments.journal {
        ui.line(format!(
            "its journal lies on {journal}; without that device its members log"
        ));
    }
    if created.stage_bytes > 0 {
        ui.line(format!(
            "small writes are answered from a stage of {}",
            arrays::size(created.stage_bytes)
        ));
    }
    for spare in &arguments.spares {
        ui.line(format!(
            "{spare} is a spare of it, and takes the place of a member that is lost"
        ));
    }
    arrays::note_hidden_by_file(&created.name, &created.uuid.to_string(), ui);
    let devices = devices(expression, arguments);
    ui.line(format!(
        "use it as {}",
        scan::shell_word(&scan::target_of(&created.name, &devices))
    ));
    ui.json(&document(created, expression, arguments));
}

/// Returns warnings about small spares, and about devices that are several of the array's.
fn warnings(created: &Created, devices: &[&str]) -> Vec<String> {
    let mut slices = BTreeMap::<_, Vec<String>>::new();
    for name in devices.iter().filter(|name| Slice::is_text(name)) {
        if let Ok(slice) = Slice::parse(name) {
            let names = slices.entry(absolute(&slice.device)).or_default();
            names.push((*name).to_owned());
        }
    }
    slices.retain(|_, names| names.len() > 1);
    let lost = slices
        .iter()
        .map(|(device, names)| format!("{device} holds {}: a failure takes them all", few(names)));
    let small = created.small_spares.iter().map(ToString::to_string);
    small.chain(lost).collect()
}

/// Returns the line for people on the initial sync.
fn sync_line(sync: Sync) -> &'static str {
    match sync {
        Sync::NotNeeded => "without redundancy: no device may fail",
        Sync::Unwritten => "ready: it holds zeros, and redundancy is made where it is written",
        Sync::KnownZero => "consistent: the devices are known to hold zeros",
        Sync::Done => "consistent: redundancy was made to agree with the devices",
        Sync::Stopped => {
            "not consistent: the initial sync was stopped; create the array again to have it"
        }
    }
}

/// Returns the initial sync as in the JSON document.
fn initial_sync(sync: Sync) -> InitialSync {
    match sync {
        Sync::NotNeeded | Sync::Unwritten => InitialSync::NotNeeded,
        Sync::KnownZero => InitialSync::KnownZero,
        Sync::Done => InitialSync::Done,
        Sync::Stopped => InitialSync::Stopped,
    }
}

/// Returns the JSON document of a new array.
fn document<'a>(
    created: &'a Created,
    expression: &'a Expression,
    arguments: &'a Arguments,
) -> changes::Created<'a> {
    let unused = created.unused.iter();
    let unused = unused.map(|&(ref member, bytes)| Unused { member, bytes });
    let overwritten = created.wiped.iter();
    let overwritten = overwritten.map(|(device, what)| Overwritten { device, what });
    changes::Created {
        name: &created.name,
        uuid: created.uuid.to_string(),
        level: created.level.name,
        layout: &created.layout,
        chunk_bytes: created.chunk_bytes,
        block_bytes: created.block_bytes,
        bytes: created.bytes,
        members: created.members,
        checksum: created.checksum.name(),
        devices: expression.leaves(),
        spares: &arguments.spares,
        journal: arguments.journal.as_deref(),
        initial_sync: initial_sync(created.sync),
        warnings: warnings(created, &devices(expression, arguments)),
        unused: unused.collect(),
        overwritten: overwritten.collect(),
    }
}
