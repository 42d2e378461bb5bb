//! `spindles translate`: the configurations of other systems in our words, and ours in theirs.

use super::Command;
use crate::documents::tools as documents;
use crate::failure::Usage;
use crate::ui::Ui;
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_admin::configuration::{Configuration, dialect_named, names};
use spindles_admin::create::{check_name, size_of};
use spindles_admin::scan::shell_word;
use spindles_block::{BlockSize, SizeBytes};
use spindles_dialects::{DIALECTS, Dialect, Note, Shape, Translated, Write, Writing};
use spindles_layout::{Expression, MISSING, Redundancy};

pub(crate) static COMMAND: Command = Command {
    name: "translate",
    about: "Say in our words what a configuration of another system means, or ours in theirs",
    details: "WHAT is a file, a quoted line or an expression of ours. Each array is shown twice: \
              as it lies on its devices, and as a new array of that shape. The first line opens \
              an existing array without writing to it. In the second, NAME stands for a name of \
              your choice, and DEV for the device of a missing member. Reads the file, and the \
              sizes of devices that exist; writes nothing.\n\n\
              spindles translate /etc/raid0.conf\n\
              spindles translate 'zpool create tank mirror sda sdb mirror sdc sdd'\n\
              spindles translate vinum.conf --to mdadm\n\
              spindles translate 'raid5(/dev/sda,/dev/sdb,/dev/sdc)' --to raidctl",
    hidden: false,
    arguments: |command| {
        let dialects = DIALECTS.iter().map(|dialect| {
            let writes = if dialect.write.is_some() {
                "; also written"
            } else {
                ""
            };
            let Dialect { name, summary, .. } = dialect;
            format!("\n  {name:<8} {summary}: {}{writes}", dialect.reads)
        });
        let details = format!(
            "{}\n\nDialects:{}",
            COMMAND.details,
            dialects.collect::<String>()
        );
        Arguments::augment_args(command).after_help(details)
    },
    run,
};

/// Stands for a device that the user has to name.
const PLACEHOLDER: &str = "DEV";

/// Stands for a name that the user has to give.
const PLACEHOLDER_NAME: &str = "NAME";

#[derive(Args)]
struct Arguments {
    /// A file, FILE#ARRAY for one of its arrays, - for standard input, a quoted line, or an
    /// expression
    #[arg(value_name = "WHAT")]
    what: String,
    /// The dialect of WHAT [default: as the words say]
    #[arg(long, value_name = "DIALECT")]
    from: Option<String>,
    /// The system whose habits differ, where two use the same words: freebsd or netbsd for ccd
    #[arg(long, value_name = "SYSTEM")]
    flavour: Option<String>,
    /// Print the array in the words of this dialect
    #[arg(long, value_name = "DIALECT")]
    to: Option<String>,
    /// With an expression: the chunk size [default: the level's]
    #[arg(long, value_name = "SIZE")]
    chunk: Option<SizeBytes>,
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let to = arguments.to.as_deref().map(writer).transpose()?;
    let configuration = match Configuration::find(&arguments.what)? {
        Some(configuration) => configuration,
        None if arguments.from.is_some() => Configuration::of_text(&arguments.what),
        None => return ours(&arguments, to, ui),
    };
    if arguments.chunk.is_some() {
        return Err(Usage::error(
            "--chunk goes with an expression: a configuration has its own",
        ));
    }
    let read = configuration.read(arguments.from.as_deref(), arguments.flavour.as_deref())?;
    let arrays = read.translation.arrays.iter();
    let arrays: Vec<Translated> = arrays.map(|array| read.on_devices(array)).collect();
    let shapes = arrays.iter().map(|array| &array.shape);
    let mut writing = Writing::new(shapes, &|device| size_of(device).ok());
    let mut differences = Vec::new();
    let mut documents = Vec::new();
    for array in &arrays {
        let document = in_our_words(array, to, &mut writing)?;
        if let (Some((dialect, _)), Some(words)) = (to, &document.words) {
            let flavour = arguments.flavour.as_deref();
            let flavour = flavour.filter(|_| dialect.name == read.dialect.name);
            differences.extend(moves(array, words, dialect, flavour));
        }
        documents.push(document);
    }
    let arrays = documents;
    differences.extend_from_slice(writing.notes());
    for array in &arrays {
        show(array, ui);
        if let (None, Some(Err(error))) = (to, array.name.as_deref().map(check_name)) {
            ui.line(format!("note: {error}"));
        }
    }
    let notes = &read.translation.notes;
    let shown = notes
        .iter()
        .filter(|note| to.is_none() || !note.is_about_here);
    for Note { line, text, .. } in shown {
        let note = format!("note, line {line}: {text}");
        // Standard output holds words for a file.
        if to.is_some() {
            ui.note(note);
        } else {
            ui.line(note);
        }
    }
    for difference in &differences {
        ui.note(difference);
    }
    ui.json(&documents::Translated {
        dialect: Some(read.dialect.name),
        arrays,
        differences,
        notes: notes
            .iter()
            .map(|note| documents::Note {
                line: note.line,
                text: &note.text,
            })
            .collect(),
    });
    Ok(())
}

/// Shows an expression of ours in the words of a dialect.
fn ours(arguments: &Arguments, to: Option<Writer>, ui: &Ui) -> anyhow::Result<()> {
    let what = &arguments.what;
    let expression = Expression::parse(what).map_err(|error| {
        // Without parentheses, the words are no attempt at an expression.
        let error = if what.contains('(') {
            format!(":\n{error}")
        } else {
            String::new()
        };
        let dialects = names(|_| true);
        Usage::error(format!(
            "'{what}' is neither a file, nor the words of a dialect ({dialects}), nor an \
             expression{error}"
        ))
    })?;
    let to = to.ok_or_else(|| {
        let dialects = names(|dialect| dialect.write.is_some());
        Usage::error(format!("an expression needs --to, with one of {dialects}"))
    })?;
    let shape = Shape {
        name: None,
        expression,
        chunk_bytes: arguments.chunk.map(|chunk| chunk.0),
        spares: Vec::new(),
        journal: None,
        is_uniform: false,
        no_offset: false,
    };
    let mut writing = Writing::new([&shape], &|device| size_of(device).ok());
    let array = documents::TranslatedArray {
        words: Some(written(&shape, to, &mut writing)?),
        ..of_shape(&shape, &shape.expression)
    };
    ui.line(array.words.as_deref().unwrap_or_default().trim_end());
    for difference in writing.notes() {
        ui.note(difference);
    }
    ui.json(&documents::Translated {
        dialect: None,
        arrays: vec![array],
        differences: writing.notes().to_vec(),
        notes: Vec::new(),
    });
    Ok(())
}

/// Reads the words of an array back. Returns a note if its data would lie elsewhere by them.
fn moves(
    array: &Translated,
    words: &str,
    dialect: &Dialect,
    flavour: Option<&str>,
) -> Option<String> {
    if !array.in_place {
        return None;
    }
    let back = Configuration::of_text(words).read(Some(dialect.name), flavour);
    let back = back.and_then(|described| described.only()).ok();
    let there = back
        .filter(|back| back.in_place)
        .map(|back| back.expression);
    let name = array.shape.name.as_deref().unwrap_or("the array");
    let here = &array.expression;
    match there {
        Some(there) if there == *here => None,
        Some(there) => Some(format!(
            "{name} lies at {here}, and these words mean {there}: a new array, to copy it into"
        )),
        None => Some(format!(
            "{name} lies at {here}, and these words make a new array, to copy it into"
        )),
    }
}

/// A dialect with its printer.
type Writer = (&'static Dialect, Write);

fn writer(name: &str) -> anyhow::Result<Writer> {
    let dialect = dialect_named(name)?;
    let write = dialect.write.ok_or_else(|| {
        let others = names(|dialect| dialect.write.is_some());
        Usage::error(format!("--to {name}: {name} is only read; take {others}"))
    })?;
    Ok((dialect, write))
}

fn written(
    shape: &Shape,
    (dialect, write): Writer,
    writing: &mut Writing<'_>,
) -> anyhow::Result<String> {
    write(shape, writing)
        .map_err(|unsayable| Usage::error(format!("{} has no words for {unsayable}", dialect.name)))
}

/// Returns an array of a text with the commands that open and create it.
fn in_our_words(
    array: &Translated,
    to: Option<Writer>,
    writing: &mut Writing<'_>,
) -> anyhow::Result<documents::TranslatedArray> {
    let chunk = chunk_option(array.shape.chunk_bytes);
    let expression = array.in_place.then(|| array.expression.to_string());
    let opens = expression.as_ref().map(|expression| {
        let plain = format!("plain:{expression}");
        let unclean = if array.unclean { " --unclean" } else { "" };
        let plain = shell_word(&plain);
        format!("spindles serve {plain}{chunk}{unclean} --nbd 10809")
    });
    Ok(documents::TranslatedArray {
        expression,
        opens,
        words: to
            .map(|to| written(&array.shape, to, writing))
            .transpose()?,
        ..of_shape(&array.shape, array.for_new())
    })
}

/// Returns the document of a shape; a new array has the members of `new`.
fn of_shape(shape: &Shape, new: &Expression) -> documents::TranslatedArray {
    let leaves = new.leaves().into_iter();
    let is_one = leaves.filter(|leaf| *leaf == MISSING).count() == 1;
    let mut placeholders = 0;
    let members = new.with_leaves(&mut |name| match name {
        MISSING if is_one => PLACEHOLDER.to_owned(),
        MISSING => {
            placeholders += 1;
            format!("{PLACEHOLDER}{placeholders}")
        }
        name => name.to_owned(),
    });
    let name = shape.name.as_deref();
    let name = name.filter(|name| check_name(name).is_ok());
    let chunk_bytes = shape.chunk_bytes.filter(|_| has_chunks(new));
    let mut creates = format!(
        "spindles create {} {}{}",
        shell_word(name.unwrap_or(PLACEHOLDER_NAME)),
        shell_word(&members.to_string()),
        chunk_option(chunk_bytes)
    );
    if BlockSize::dividing(chunk_bytes.unwrap_or(0)) == BlockSize::B512 {
        creates += " --block-size 512";
    }
    for spare in &shape.spares {
        creates += " --spare ";
        creates += &shell_word(spare);
    }
    if let Some(journal) = &shape.journal {
        creates += " --journal ";
        creates += &shell_word(journal);
    }
    documents::TranslatedArray {
        name: shape.name.clone(),
        expression: None,
        shape: shape.expression.to_string(),
        chunk_bytes: shape.chunk_bytes,
        spares: shape.spares.clone(),
        journal: shape.journal.clone(),
        opens: None,
        creates,
        words: None,
    }
}

/// Returns true if chunks decide where data lies: in a mirror of devices they don't.
fn has_chunks(expression: &Expression) -> bool {
    match expression {
        Expression::Leaf(_) => false,
        Expression::Slice { of, .. } => has_chunks(of),
        Expression::Array { level, members, .. } => {
            level.redundancy != Redundancy::CopyOnEveryMember || members.iter().any(has_chunks)
        }
    }
}

fn chunk_option(chunk_bytes: Option<u64>) -> String {
    chunk_bytes.map_or_else(String::new, |bytes| {
        format!(" --chunk {}", SizeBytes(bytes).typed())
    })
}

fn show(array: &documents::TranslatedArray, ui: &Ui) {
    if let Some(words) = &array.words {
        ui.line(words.trim_end());
        return;
    }
    let name = array.name.as_deref().unwrap_or("array");
    let expression = array.expression.as_deref().unwrap_or(&array.shape);
    ui.line(format!("{name}: {expression}"));
    if let Some(opens) = &array.opens {
        ui.line(format!("  as it lies:  {opens}"));
    }
    ui.line(format!("  a new one:   {}", array.creates));
    ui.line("");
}
