//! `afflux watch`: a live view in the terminal while a run writes.
//!
//! The file is opened anew for every frame, so that what is shown is what is sealed then, and the view outlives kills, resumes,
//! closes, and a new file in the place of the old one: where a file cannot be read at a moment, the last picture stays and the
//! status line says why. Nothing of the run is held up. Into a pipe (`--once`, `--frames`) frames are printed as text.

mod snapshot;
mod view;

use crate::failure::Failure;
use crate::output;
use clap::Args;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use serde::Serialize;
use snapshot::{Shown, Snapshot};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use view::Picture;

/// Columns and lines of a frame that is printed.
const PRINTED_SIZE: (u16, u16) = (100, 30);
/// Fewest rows shown.
const ROWS_MIN: u64 = 10;
/// Most rows shown: more would not be seen, and are not read.
const ROWS_MAX: u64 = 1 << 20;

/// Show a variable over time in the terminal while the run goes on.
#[derive(Debug, Args)]
#[command(
    after_help = "Only sealed steps are shown. Keys: q quits, space holds the picture, + and - show fewer or more rows, v goes to the \
                  next variable, Tab to the next points, a scales the ordinate to what is seen or to all that was seen.\n\n\
                  Examples:\n  afflux watch run.nc\n  afflux watch run.nc --var Ez --point 0 511 1023\n  \
                  afflux watch run.nc --var Ez --point 0 --once"
)]
pub struct Watch {
    /// The file; it need not be there yet.
    file: PathBuf,
    /// The variable; the first unless given, of one with components `NAME[0]`, `NAME[1]`, ...
    #[arg(long, value_name = "V")]
    var: Option<String>,
    /// Points, by name or id; the first unless given.
    #[arg(long, value_name = "P", num_args = 1.., allow_negative_numbers = true)]
    point: Vec<String>,
    /// The set; the default set, or the first, unless given.
    #[arg(long, value_name = "S")]
    set: Option<String>,
    /// The last rows shown.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(ROWS_MIN..=ROWS_MAX))]
    rows: u64,
    /// Seconds between frames.
    #[arg(long, value_name = "T", default_value_t = 0.5)]
    interval: f64,
    /// Print one frame and end.
    #[arg(long, conflicts_with = "frames")]
    once: bool,
    /// Print so many frames, one behind the other, and end.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    frames: Option<u64>,
    /// Print frames as JSON objects, one a line; with --once or --frames.
    #[arg(long)]
    json: bool,
}

/// A frame as JSON.
#[derive(Serialize)]
struct Frame {
    file: String,
    watermark: Option<u64>,
    closed: Option<bool>,
    rows: u64,
    variable: Option<String>,
    points: Vec<String>,
    step_last: Option<i64>,
    values_last: Vec<f64>,
    problem: Option<String>,
}

impl Watch {
    /// Shows frames until a key ends it, or prints as many as are asked for.
    pub fn run(&self) -> Result<(), Failure> {
        if !(0.01..=3600.0).contains(&self.interval) {
            return Err(Failure::usage(format!("--interval is from 0.01 to 3600 seconds, not {}", self.interval)));
        }
        match (self.once, self.frames) {
            (true, _) => self.print(1),
            (false, Some(frames)) => self.print(frames),
            (false, None) if self.json => Err(Failure::usage("--json needs --once or --frames")),
            (false, None) if !std::io::stdout().is_terminal() => {
                Err(Failure::usage("standard output is no terminal: give --once or --frames to print frames"))
            }
            (false, None) => self.live(),
        }
    }

    fn shown(&self) -> Shown {
        Shown {
            set: self.set.clone(),
            variable: self.var.clone(),
            points: self.point.clone(),
            rows: self.rows,
            ..Shown::default()
        }
    }

    fn pause(&self) -> Duration {
        Duration::from_secs_f64(self.interval)
    }

    /// Frames as text or JSON. A file that is not there or cannot be read is a failure here if no frame showed it.
    fn print(&self, frames: u64) -> Result<(), Failure> {
        let shown = self.shown();
        let mut picture = Picture::new(&self.file);
        let mut failed = None;
        for frame in 0..frames {
            if frame > 0 {
                std::thread::sleep(self.pause());
            }
            match Snapshot::read(&self.file, &shown) {
                Ok(snapshot) => picture.show(snapshot),
                Err(failure) => {
                    picture.problem(failure.message.clone());
                    failed = Some(failure);
                }
            }
            if self.json {
                output::print_json(&self.frame(&picture))?;
            } else if picture.snapshot().is_some() {
                output::print(&self.text(&picture)?)?;
            }
        }
        match (failed, picture.snapshot()) {
            (Some(failure), None) => Err(failure),
            _ => Ok(()),
        }
    }

    fn text(&self, picture: &Picture) -> Result<String, Failure> {
        let (width, height) = PRINTED_SIZE;
        let unseen = |error: &dyn std::fmt::Display| Failure::failed(format!("cannot draw a frame: {error}"));
        let mut terminal = Terminal::new(TestBackend::new(width, height)).map_err(|error| unseen(&error))?;
        terminal.draw(|frame| picture.draw(frame)).map_err(|error| unseen(&error))?;
        let buffer = terminal.backend().buffer();
        let line = |y: u16| {
            let line: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
            line.trim_end().to_owned() + "\n"
        };
        Ok((0..height).map(line).collect())
    }

    fn frame(&self, picture: &Picture) -> Frame {
        let snapshot = picture.snapshot();
        let of = |tell: fn(&Snapshot) -> Option<u64>| snapshot.and_then(tell);
        Frame {
            file: self.file.display().to_string(),
            watermark: of(|snapshot| snapshot.watermark),
            closed: snapshot.map(|snapshot| snapshot.closed),
            rows: of(|snapshot| Some(snapshot.rows)).unwrap_or(0),
            variable: snapshot.map(|snapshot| snapshot.variable.clone()),
            points: snapshot
                .map_or_else(Vec::new, |snapshot| snapshot.lines.iter().map(|line| line.label.clone()).collect()),
            step_last: snapshot.and_then(|snapshot| snapshot.step_last),
            values_last: snapshot.map_or_else(Vec::new, Snapshot::values_last),
            problem: picture.problem_text().map(str::to_owned),
        }
    }

    fn live(&self) -> Result<(), Failure> {
        let mut terminal =
            ratatui::try_init().map_err(|error| Failure::failed(format!("cannot use this terminal: {error}")))?;
        let result = self.frames_until_a_key(&mut terminal);
        ratatui::restore();
        result.map_err(|error| Failure::failed(format!("the terminal failed: {error}")))
    }

    fn frames_until_a_key(&self, terminal: &mut ratatui::DefaultTerminal) -> std::io::Result<()> {
        let mut shown = self.shown();
        let mut picture = Picture::new(&self.file);
        let mut next = Instant::now();
        loop {
            if Instant::now() >= next {
                if !picture.held {
                    match Snapshot::read(&self.file, &shown) {
                        Ok(snapshot) => picture.show(snapshot),
                        Err(failure) => picture.problem(failure.message),
                    }
                }
                next = Instant::now() + self.pause();
            }
            terminal.draw(|frame| picture.draw(frame))?;
            if !event::poll(next.saturating_duration_since(Instant::now()))? {
                continue;
            }
            if let Event::Key(key) = event::read()?
                && key.kind == KeyEventKind::Press
            {
                if ends(key) {
                    return Ok(());
                }
                act(key.code, &mut shown, &mut picture);
                // What the key has changed is seen at once.
                next = Instant::now();
            }
        }
    }
}

fn ends(key: KeyEvent) -> bool {
    matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
        || (key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL))
}

fn act(key: KeyCode, shown: &mut Shown, picture: &mut Picture) {
    match key {
        KeyCode::Char(' ') => picture.held = !picture.held,
        KeyCode::Char('+' | '=') => shown.rows = (shown.rows / 2).max(ROWS_MIN),
        KeyCode::Char('-') => shown.rows = shown.rows.saturating_mul(2).min(ROWS_MAX),
        KeyCode::Char('v') => {
            shown.variables_on += 1;
            picture.forget_scale();
        }
        KeyCode::Tab => {
            shown.points_on += 1;
            picture.forget_scale();
        }
        KeyCode::Char('a') => picture.scale_to_seen = !picture.scale_to_seen,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_do_what_the_help_says() {
        let (mut shown, mut picture) = (Shown { rows: 40, ..Shown::default() }, Picture::new("run.nc".as_ref()));
        act(KeyCode::Char('-'), &mut shown, &mut picture);
        assert_eq!(shown.rows, 80);
        (0..9).for_each(|_| act(KeyCode::Char('+'), &mut shown, &mut picture));
        assert_eq!(shown.rows, ROWS_MIN);
        act(KeyCode::Char(' '), &mut shown, &mut picture);
        act(KeyCode::Tab, &mut shown, &mut picture);
        act(KeyCode::Char('v'), &mut shown, &mut picture);
        act(KeyCode::Char('a'), &mut shown, &mut picture);
        assert_eq!((picture.held, picture.scale_to_seen, shown.points_on, shown.variables_on), (true, true, 1, 1));
        assert!(ends(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)) && ends(KeyCode::Esc.into()));
        assert!(!ends(KeyCode::Char('c').into()));
    }
}
