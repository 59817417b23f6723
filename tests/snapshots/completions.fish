# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_outboxd_global_optspecs
    string join \n c/config= set= h/help V/version
end

function __fish_outboxd_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_outboxd_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_outboxd_using_subcommand
    set -l cmd (__fish_outboxd_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c outboxd -n "__fish_outboxd_needs_command" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_needs_command" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c outboxd -n "__fish_outboxd_needs_command" -s V -l version -d 'Print version'
complete -c outboxd -n "__fish_outboxd_needs_command" -f -a "run" -d 'Deliver until stopped. SIGTERM and SIGINT drain, a second one gives back at once, SIGHUP reloads keys and egress, as does a changed file'
complete -c outboxd -n "__fish_outboxd_needs_command" -f -a "receive" -d 'Take in notifications until stopped: each is stored in Postgres before it is acknowledged. SIGTERM and SIGINT drain'
complete -c outboxd -n "__fish_outboxd_needs_command" -f -a "migrate" -d 'Create or update the tables that the host and the daemon share'
complete -c outboxd -n "__fish_outboxd_needs_command" -f -a "check" -d 'Look at everything `run` needs, one line each, and say what to do about what is wrong'
complete -c outboxd -n "__fish_outboxd_needs_command" -f -a "doctor" -d 'Look at everything as `check` does, then at the last hour, and say what to do'
complete -c outboxd -n "__fish_outboxd_needs_command" -f -a "check-url" -d 'Say whether a URL would be delivered to: each DNS answer, what it is, and which rule decides. Connects to no receiver'
complete -c outboxd -n "__fish_outboxd_needs_command" -f -a "seal" -d 'Seal registrations and webhooks for a host without cryptography: JSON on standard input, JSON out'
complete -c outboxd -n "__fish_outboxd_needs_command" -f -a "open" -d 'Say what a sealed row holds, which key opens it, and what is wrong where none does. Never prints credentials'
complete -c outboxd -n "__fish_outboxd_needs_command" -f -a "verify" -d 'Judge a captured request by the receiver\'s checks: which of them fails, with which code, and what to do'
complete -c outboxd -n "__fish_outboxd_needs_command" -f -a "rekey" -d 'Seal what is open again under the newest envelope key, while daemons deliver. May be broken off and run again'
complete -c outboxd -n "__fish_outboxd_needs_command" -f -a "keys" -d 'Say which keys there are, who holds them, what needs each, and whether one can go'
complete -c outboxd -n "__fish_outboxd_needs_command" -f -a "requeue" -d 'Have rows tried again that were quarantined or expired, or that wait: counted first, by filter'
complete -c outboxd -n "__fish_outboxd_needs_command" -f -a "cancel" -d 'Take open rows out of delivery: counted first, by filter'
complete -c outboxd -n "__fish_outboxd_needs_command" -f -a "expire" -d 'End open rows as though their retry horizon were over: counted first, by filter'
complete -c outboxd -n "__fish_outboxd_needs_command" -f -a "purge" -d 'Delete finished rows past their horizon: counted first, by filter'
complete -c outboxd -n "__fish_outboxd_needs_command" -f -a "destinations" -d 'Show where due rows are to go and which destinations are parked, why and for how long; or let one go'
complete -c outboxd -n "__fish_outboxd_needs_command" -f -a "status" -d 'Say how it stands: what is due and since when, what goes wrong and where, who delivers, and what to do about it'
complete -c outboxd -n "__fish_outboxd_needs_command" -f -a "why" -d 'Tell one webhook\'s life in plain words: what happened, what happens next and when, or what to do'
complete -c outboxd -n "__fish_outboxd_needs_command" -f -a "tail" -d 'Show attempts as they happen'
complete -c outboxd -n "__fish_outboxd_needs_command" -f -a "healthcheck" -d 'Ask the daemon beside it whether it lives, for a container\'s health check'
complete -c outboxd -n "__fish_outboxd_needs_command" -f -a "list" -d 'List rows, newest first: what state each is in, how often it was tried, what is next. By state, account, destination, age or code'
complete -c outboxd -n "__fish_outboxd_needs_command" -f -a "keygen" -d 'Make an encryption key or a signing key'
complete -c outboxd -n "__fish_outboxd_needs_command" -f -a "scope" -d 'Write, list and end the signing scopes of the table that every replica signs by (`signing.scopes_table`)'
complete -c outboxd -n "__fish_outboxd_needs_command" -f -a "config" -d 'Print the default configuration: every key, its unit, its default and what it is for'
complete -c outboxd -n "__fish_outboxd_needs_command" -f -a "codes" -d 'Print every outcome code: what happens to the row, who can mend it, and what it means'
complete -c outboxd -n "__fish_outboxd_needs_command" -f -a "completions" -d 'Print the completion script of a shell'
complete -c outboxd -n "__fish_outboxd_needs_command" -f -a "man" -d 'Print the manual, or write a page for each command'
complete -c outboxd -n "__fish_outboxd_needs_command" -f -a "demo" -d 'See it work: a throwaway Postgres, buyers on loopback and 2,000 webhooks, all removed afterwards'
complete -c outboxd -n "__fish_outboxd_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c outboxd -n "__fish_outboxd_using_subcommand run" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand run" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand run" -s h -l help -d 'Print help'
complete -c outboxd -n "__fish_outboxd_using_subcommand receive; and not __fish_seen_subcommand_from import help" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand receive; and not __fish_seen_subcommand_from import help" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand receive; and not __fish_seen_subcommand_from import help" -l demo -d 'See it work, without any configuration: a throwaway Postgres, senders that repeat themselves, and a kill'
complete -c outboxd -n "__fish_outboxd_using_subcommand receive; and not __fish_seen_subcommand_from import help" -s h -l help -d 'Print help'
complete -c outboxd -n "__fish_outboxd_using_subcommand receive; and not __fish_seen_subcommand_from import help" -f -a "import" -d 'Bring the source CMS\'s SQLite ledger (version 1 or 2) into the inbox. Stop its receiver first.'
complete -c outboxd -n "__fish_outboxd_using_subcommand receive; and not __fish_seen_subcommand_from import help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c outboxd -n "__fish_outboxd_using_subcommand receive; and __fish_seen_subcommand_from import" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand receive; and __fish_seen_subcommand_from import" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand receive; and __fish_seen_subcommand_from import" -l dry-run -d 'Check every row, say what would be imported, and write nothing'
complete -c outboxd -n "__fish_outboxd_using_subcommand receive; and __fish_seen_subcommand_from import" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c outboxd -n "__fish_outboxd_using_subcommand receive; and __fish_seen_subcommand_from help" -f -a "import" -d 'Bring the source CMS\'s SQLite ledger (version 1 or 2) into the inbox. Stop its receiver first.'
complete -c outboxd -n "__fish_outboxd_using_subcommand receive; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c outboxd -n "__fish_outboxd_using_subcommand migrate" -l patience -d 'How long it tries for locks that open transactions hold. Writers are held up for fractions of a second meanwhile' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand migrate" -l outbox -d 'Of several `[[outboxes]]`, only the one with this name' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand migrate" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand migrate" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand migrate" -l print -d 'Print the SQL instead of running it, for psql, Alembic or Flyway. Needs no database'
complete -c outboxd -n "__fish_outboxd_using_subcommand migrate" -l check -d 'Change nothing; say what is missing, and exit with 78 if anything is'
complete -c outboxd -n "__fish_outboxd_using_subcommand migrate" -s h -l help -d 'Print help'
complete -c outboxd -n "__fish_outboxd_using_subcommand check" -l outbox -d 'Of several `[[outboxes]]`, only the one with this name' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand check" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand check" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand check" -l json -d 'Print one JSON object'
complete -c outboxd -n "__fish_outboxd_using_subcommand check" -s h -l help -d 'Print help'
complete -c outboxd -n "__fish_outboxd_using_subcommand doctor" -l outbox -d 'Of several `[[outboxes]]`, only the one with this name' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand doctor" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand doctor" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand doctor" -l json -d 'Print one JSON object'
complete -c outboxd -n "__fish_outboxd_using_subcommand doctor" -s h -l help -d 'Print help'
complete -c outboxd -n "__fish_outboxd_using_subcommand check-url" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand check-url" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand check-url" -l explain -d 'Say why each step ends as it does, and which setting would change it'
complete -c outboxd -n "__fish_outboxd_using_subcommand check-url" -l json -d 'One JSON object for each URL, with everything in it that --explain says'
complete -c outboxd -n "__fish_outboxd_using_subcommand check-url" -s h -l help -d 'Print help'
complete -c outboxd -n "__fish_outboxd_using_subcommand seal" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand seal" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand seal" -l partial -d 'Print what could be sealed although other items are refused; each of those is answered by an object `error`'
complete -c outboxd -n "__fish_outboxd_using_subcommand seal" -s h -l help -d 'Print help'
complete -c outboxd -n "__fish_outboxd_using_subcommand open" -l task -d 'The outbox row of this task, or the registration of the task where it has not ended; else rows from standard input' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand open" -l id -d 'The outbox row with this id' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand open" -l outbox -d 'Of several `[[outboxes]]`, only the one with this name' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand open" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand open" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand open" -l body -d 'Show the body too: what the receiver gets, with the token in it. Credentials are never shown'
complete -c outboxd -n "__fish_outboxd_using_subcommand open" -s h -l help -d 'Print help'
complete -c outboxd -n "__fish_outboxd_using_subcommand verify" -l jwks -d 'The sender\'s key set (a JSON Web Key Set, or one JWK). Needed for RFC 9421 signatures' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand verify" -l revocation -d 'Key ids that are not to be trusted: `{"revoked_kids": [...]}`, with `updated` and `next_update` if it can grow stale' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand verify" -l secret-file -d 'The shared secret of an HMAC-SHA256 or Standard Webhooks request; one a line where several are in use' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand verify" -l at -d 'When the request came in: Unix seconds, or RFC 3339 such as 2026-04-18T10:00:00Z [default: now]' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand verify" -l url -d 'The scheme and host that the sender aimed at, where the capture shows others, such as those behind a proxy' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand verify" -l body -d 'The body, where the capture does not hold it: `curl -v` prints none' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand verify" -l scheme -d 'What to judge by [default: what the request\'s headers ask for]' -r -f -a "rfc9421\t''
hmac-sha256\t''
standard-webhooks\t''"
complete -c outboxd -n "__fish_outboxd_using_subcommand verify" -l profile -d 'Which profile an RFC 9421 signature must be of' -r -f -a "webhook\t'Webhooks (`adcp/webhook-signing/v1`), in all of AdCP 3.x'
request-signing\t'Requests between agents (`adcp/request-signing/v1`) as AdCP 3.2 signs them'
request-signing-3.1\t'The same as AdCP 3.1 signs them: base64url, and the body may be left out'"
complete -c outboxd -n "__fish_outboxd_using_subcommand verify" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand verify" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand verify" -l explain -d 'Also print the signature base with its line ends, both digests, the key that was chosen and the time window'
complete -c outboxd -n "__fish_outboxd_using_subcommand verify" -l json -d 'Print one JSON object'
complete -c outboxd -n "__fish_outboxd_using_subcommand verify" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c outboxd -n "__fish_outboxd_using_subcommand rekey" -l batch -d 'Rows to read, seal and write at a time' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand rekey" -l rate -d 'At most so many rows a second. Without it as fast as the database goes' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand rekey" -l outbox -d 'Of several `[[outboxes]]`, only the one with this name' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand rekey" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand rekey" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand rekey" -l dry-run -d 'Only count what would be sealed again'
complete -c outboxd -n "__fish_outboxd_using_subcommand rekey" -l json -d 'Print the summary as one JSON object'
complete -c outboxd -n "__fish_outboxd_using_subcommand rekey" -s h -l help -d 'Print help'
complete -c outboxd -n "__fish_outboxd_using_subcommand keys" -l may-drop -d 'Whether the key with this fingerprint can be dropped: exit code 0 if so, 75 and the reasons if not yet' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand keys" -l quiet -d 'With --may-drop: for how long no row may have appeared under the key, such as 1h or 30m' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand keys" -l outbox -d 'Of several `[[outboxes]]`, only the one with this name' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand keys" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand keys" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand keys" -l json -d 'Print one JSON object'
complete -c outboxd -n "__fish_outboxd_using_subcommand keys" -s h -l help -d 'Print help'
complete -c outboxd -n "__fish_outboxd_using_subcommand requeue" -l reason -d 'Why, for the audit' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand requeue" -l actor -d 'Who, for the audit. By default the user and machine that this runs as' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand requeue" -l resume -d 'Go on with a run that was interrupted, with its filter; the run\'s id was printed, and is in the audit' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand requeue" -l rate -d 'At most so many rows a second. 0: as fast as the database goes' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand requeue" -l batch -d 'Rows in one transaction' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand requeue" -l limit -d 'At most so many rows in all' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand requeue" -l state -d 'Rows in one of these states: pending, in_flight, delivered, expired, invalid (quarantined). May be repeated' -r -f -a "pending\t''
in_flight\t''
delivered\t''
expired\t''
invalid\t''"
complete -c outboxd -n "__fish_outboxd_using_subcommand requeue" -l account -d 'Rows of this account' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand requeue" -l destination -d 'Rows for this host (and port, unless it is 443), or for that of this URL' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand requeue" -l code -d 'Rows whose last attempt ended with this code. Every code: outboxd codes' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand requeue" -l task -d 'The row of this task' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand requeue" -l key -d 'The row with this idempotency key' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand requeue" -l older-than -d 'Rows written longer ago, for example 90m or 2d' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand requeue" -l newer-than -d 'Rows written since' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand requeue" -l outbox -d 'Of several `[[outboxes]]`, only the one with this name' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand requeue" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand requeue" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand requeue" -l run -l yes -d 'Do it. Without this it only counts'
complete -c outboxd -n "__fish_outboxd_using_subcommand requeue" -l all -d 'Every row that this can be done to, where no filter says which'
complete -c outboxd -n "__fish_outboxd_using_subcommand requeue" -l json -d 'Print one JSON object for each outbox'
complete -c outboxd -n "__fish_outboxd_using_subcommand requeue" -s h -l help -d 'Print help'
complete -c outboxd -n "__fish_outboxd_using_subcommand cancel" -l reason -d 'Why, for the audit' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand cancel" -l actor -d 'Who, for the audit. By default the user and machine that this runs as' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand cancel" -l resume -d 'Go on with a run that was interrupted, with its filter; the run\'s id was printed, and is in the audit' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand cancel" -l rate -d 'At most so many rows a second. 0: as fast as the database goes' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand cancel" -l batch -d 'Rows in one transaction' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand cancel" -l limit -d 'At most so many rows in all' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand cancel" -l state -d 'Rows in one of these states: pending, in_flight, delivered, expired, invalid (quarantined). May be repeated' -r -f -a "pending\t''
in_flight\t''
delivered\t''
expired\t''
invalid\t''"
complete -c outboxd -n "__fish_outboxd_using_subcommand cancel" -l account -d 'Rows of this account' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand cancel" -l destination -d 'Rows for this host (and port, unless it is 443), or for that of this URL' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand cancel" -l code -d 'Rows whose last attempt ended with this code. Every code: outboxd codes' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand cancel" -l task -d 'The row of this task' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand cancel" -l key -d 'The row with this idempotency key' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand cancel" -l older-than -d 'Rows written longer ago, for example 90m or 2d' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand cancel" -l newer-than -d 'Rows written since' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand cancel" -l outbox -d 'Of several `[[outboxes]]`, only the one with this name' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand cancel" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand cancel" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand cancel" -l run -l yes -d 'Do it. Without this it only counts'
complete -c outboxd -n "__fish_outboxd_using_subcommand cancel" -l all -d 'Every row that this can be done to, where no filter says which'
complete -c outboxd -n "__fish_outboxd_using_subcommand cancel" -l json -d 'Print one JSON object for each outbox'
complete -c outboxd -n "__fish_outboxd_using_subcommand cancel" -s h -l help -d 'Print help'
complete -c outboxd -n "__fish_outboxd_using_subcommand expire" -l reason -d 'Why, for the audit' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand expire" -l actor -d 'Who, for the audit. By default the user and machine that this runs as' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand expire" -l resume -d 'Go on with a run that was interrupted, with its filter; the run\'s id was printed, and is in the audit' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand expire" -l rate -d 'At most so many rows a second. 0: as fast as the database goes' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand expire" -l batch -d 'Rows in one transaction' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand expire" -l limit -d 'At most so many rows in all' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand expire" -l state -d 'Rows in one of these states: pending, in_flight, delivered, expired, invalid (quarantined). May be repeated' -r -f -a "pending\t''
in_flight\t''
delivered\t''
expired\t''
invalid\t''"
complete -c outboxd -n "__fish_outboxd_using_subcommand expire" -l account -d 'Rows of this account' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand expire" -l destination -d 'Rows for this host (and port, unless it is 443), or for that of this URL' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand expire" -l code -d 'Rows whose last attempt ended with this code. Every code: outboxd codes' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand expire" -l task -d 'The row of this task' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand expire" -l key -d 'The row with this idempotency key' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand expire" -l older-than -d 'Rows written longer ago, for example 90m or 2d' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand expire" -l newer-than -d 'Rows written since' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand expire" -l outbox -d 'Of several `[[outboxes]]`, only the one with this name' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand expire" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand expire" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand expire" -l run -l yes -d 'Do it. Without this it only counts'
complete -c outboxd -n "__fish_outboxd_using_subcommand expire" -l all -d 'Every row that this can be done to, where no filter says which'
complete -c outboxd -n "__fish_outboxd_using_subcommand expire" -l json -d 'Print one JSON object for each outbox'
complete -c outboxd -n "__fish_outboxd_using_subcommand expire" -s h -l help -d 'Print help'
complete -c outboxd -n "__fish_outboxd_using_subcommand purge" -l reason -d 'Why, for the audit' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand purge" -l actor -d 'Who, for the audit. By default the user and machine that this runs as' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand purge" -l resume -d 'Go on with a run that was interrupted, with its filter; the run\'s id was printed, and is in the audit' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand purge" -l rate -d 'At most so many rows a second. 0: as fast as the database goes' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand purge" -l batch -d 'Rows in one transaction' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand purge" -l limit -d 'At most so many rows in all' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand purge" -l state -d 'Rows in one of these states: pending, in_flight, delivered, expired, invalid (quarantined). May be repeated' -r -f -a "pending\t''
in_flight\t''
delivered\t''
expired\t''
invalid\t''"
complete -c outboxd -n "__fish_outboxd_using_subcommand purge" -l account -d 'Rows of this account' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand purge" -l destination -d 'Rows for this host (and port, unless it is 443), or for that of this URL' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand purge" -l code -d 'Rows whose last attempt ended with this code. Every code: outboxd codes' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand purge" -l task -d 'The row of this task' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand purge" -l key -d 'The row with this idempotency key' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand purge" -l older-than -d 'Rows written longer ago, for example 90m or 2d' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand purge" -l newer-than -d 'Rows written since' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand purge" -l outbox -d 'Of several `[[outboxes]]`, only the one with this name' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand purge" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand purge" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand purge" -l run -l yes -d 'Do it. Without this it only counts'
complete -c outboxd -n "__fish_outboxd_using_subcommand purge" -l all -d 'Every row that this can be done to, where no filter says which'
complete -c outboxd -n "__fish_outboxd_using_subcommand purge" -l json -d 'Print one JSON object for each outbox'
complete -c outboxd -n "__fish_outboxd_using_subcommand purge" -s h -l help -d 'Print help'
complete -c outboxd -n "__fish_outboxd_using_subcommand destinations" -l release -l resume -d 'Let these destinations go, as the list names them: each begins anew with one attempt at a time' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand destinations" -l park -d 'Leave these destinations alone, whatever they would answer: their rows wait, and keep their retry horizon' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand destinations" -l for -d 'For how long, for example 2h. Then one row is tried, as after any pause' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand destinations" -l cap -d 'Give these destinations no more than `--most` attempts at once from each replica' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand destinations" -l most -d 'How many attempts at once' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand destinations" -l uncap -d 'Give these destinations as many as the configuration allows again' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand destinations" -l reason -d 'Why, for the audit' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand destinations" -l actor -d 'Who, for the audit. By default the user and machine that this runs as' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand destinations" -l outbox -d 'Of several `[[outboxes]]`, only the one with this name' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand destinations" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand destinations" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand destinations" -l json -d 'Print one JSON object'
complete -c outboxd -n "__fish_outboxd_using_subcommand destinations" -s h -l help -d 'Print help'
complete -c outboxd -n "__fish_outboxd_using_subcommand status" -l outbox -d 'Of several `[[outboxes]]`, only the one with this name' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand status" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand status" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand status" -l json -d 'Print one JSON object'
complete -c outboxd -n "__fish_outboxd_using_subcommand status" -s h -l help -d 'Print help'
complete -c outboxd -n "__fish_outboxd_using_subcommand why" -l outbox -d 'Of several `[[outboxes]]`, only the one with this name' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand why" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand why" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand why" -l json -d 'Print one JSON object'
complete -c outboxd -n "__fish_outboxd_using_subcommand why" -s h -l help -d 'Print help'
complete -c outboxd -n "__fish_outboxd_using_subcommand tail" -l account -d 'Attempts for this account' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand tail" -l code -d 'Attempts that ended with this code' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand tail" -s n -l lines -d 'How many of the last hour\'s attempts to begin with' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand tail" -l outbox -d 'Of several `[[outboxes]]`, only the one with this name' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand tail" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand tail" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand tail" -l failed -d 'Only attempts that were not taken'
complete -c outboxd -n "__fish_outboxd_using_subcommand tail" -l no-follow -d 'End after those'
complete -c outboxd -n "__fish_outboxd_using_subcommand tail" -l json -d 'Print one JSON object a line'
complete -c outboxd -n "__fish_outboxd_using_subcommand tail" -s h -l help -d 'Print help'
complete -c outboxd -n "__fish_outboxd_using_subcommand healthcheck" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand healthcheck" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand healthcheck" -l ready -d 'Ask whether it is ready, which depends on its database and its clock too, and not only whether it lives'
complete -c outboxd -n "__fish_outboxd_using_subcommand healthcheck" -s h -l help -d 'Print help'
complete -c outboxd -n "__fish_outboxd_using_subcommand list" -l state -d 'Rows in one of these states: pending, in_flight, delivered, expired, invalid (quarantined). May be repeated' -r -f -a "pending\t''
in_flight\t''
delivered\t''
expired\t''
invalid\t''"
complete -c outboxd -n "__fish_outboxd_using_subcommand list" -l account -d 'Rows of this account' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand list" -l destination -d 'Rows for this host (and port, unless it is 443), or for that of this URL' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand list" -l code -d 'Rows whose last attempt ended with this code. Every code: outboxd codes' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand list" -l task -d 'The row of this task' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand list" -l key -d 'The row with this idempotency key' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand list" -l older-than -d 'Rows written longer ago, for example 90m or 2d' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand list" -l newer-than -d 'Rows written since' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand list" -l limit -d 'Rows on a page' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand list" -l after -d 'The page after this one: the id that the page before ended with' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand list" -l outbox -d 'Of several `[[outboxes]]`, only the one with this name' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand list" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand list" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand list" -l json -d 'Print one JSON object: the rows, and what --after takes for the next page'
complete -c outboxd -n "__fish_outboxd_using_subcommand list" -s h -l help -d 'Print help'
complete -c outboxd -n "__fish_outboxd_using_subcommand keygen; and not __fish_seen_subcommand_from envelope ed25519 p256 help" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand keygen; and not __fish_seen_subcommand_from envelope ed25519 p256 help" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand keygen; and not __fish_seen_subcommand_from envelope ed25519 p256 help" -s h -l help -d 'Print help'
complete -c outboxd -n "__fish_outboxd_using_subcommand keygen; and not __fish_seen_subcommand_from envelope ed25519 p256 help" -f -a "envelope" -d 'An envelope key: 32 random bytes, as 64 hex digits'
complete -c outboxd -n "__fish_outboxd_using_subcommand keygen; and not __fish_seen_subcommand_from envelope ed25519 p256 help" -f -a "ed25519" -d 'An Ed25519 signing key (`ed25519`); take this one unless your buyers cannot verify it'
complete -c outboxd -n "__fish_outboxd_using_subcommand keygen; and not __fish_seen_subcommand_from envelope ed25519 p256 help" -f -a "p256" -d 'A P-256 signing key (`ecdsa-p256-sha256`)'
complete -c outboxd -n "__fish_outboxd_using_subcommand keygen; and not __fish_seen_subcommand_from envelope ed25519 p256 help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c outboxd -n "__fish_outboxd_using_subcommand keygen; and __fish_seen_subcommand_from envelope" -l out -d 'File for the key, readable by its owner only; it must not exist yet' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand keygen; and __fish_seen_subcommand_from envelope" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand keygen; and __fish_seen_subcommand_from envelope" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand keygen; and __fish_seen_subcommand_from envelope" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c outboxd -n "__fish_outboxd_using_subcommand keygen; and __fish_seen_subcommand_from ed25519" -l kid -d 'Key id that receivers look the public key up by [default: the key\'s RFC 7638 thumbprint]' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand keygen; and __fish_seen_subcommand_from ed25519" -l out -d 'File for the private key, readable by its owner only; it must not exist yet' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand keygen; and __fish_seen_subcommand_from ed25519" -l jwk -d 'File for the public JWK, which must not exist yet [default: standard output]' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand keygen; and __fish_seen_subcommand_from ed25519" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand keygen; and __fish_seen_subcommand_from ed25519" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand keygen; and __fish_seen_subcommand_from ed25519" -s h -l help -d 'Print help'
complete -c outboxd -n "__fish_outboxd_using_subcommand keygen; and __fish_seen_subcommand_from p256" -l kid -d 'Key id that receivers look the public key up by [default: the key\'s RFC 7638 thumbprint]' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand keygen; and __fish_seen_subcommand_from p256" -l out -d 'File for the private key, readable by its owner only; it must not exist yet' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand keygen; and __fish_seen_subcommand_from p256" -l jwk -d 'File for the public JWK, which must not exist yet [default: standard output]' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand keygen; and __fish_seen_subcommand_from p256" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand keygen; and __fish_seen_subcommand_from p256" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand keygen; and __fish_seen_subcommand_from p256" -s h -l help -d 'Print help'
complete -c outboxd -n "__fish_outboxd_using_subcommand keygen; and __fish_seen_subcommand_from help" -f -a "envelope" -d 'An envelope key: 32 random bytes, as 64 hex digits'
complete -c outboxd -n "__fish_outboxd_using_subcommand keygen; and __fish_seen_subcommand_from help" -f -a "ed25519" -d 'An Ed25519 signing key (`ed25519`); take this one unless your buyers cannot verify it'
complete -c outboxd -n "__fish_outboxd_using_subcommand keygen; and __fish_seen_subcommand_from help" -f -a "p256" -d 'A P-256 signing key (`ecdsa-p256-sha256`)'
complete -c outboxd -n "__fish_outboxd_using_subcommand keygen; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and not __fish_seen_subcommand_from put list retire decommission help" -l outbox -d 'Of several `[[outboxes]]`, only the one with this name' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and not __fish_seen_subcommand_from put list retire decommission help" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and not __fish_seen_subcommand_from put list retire decommission help" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and not __fish_seen_subcommand_from put list retire decommission help" -s h -l help -d 'Print help'
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and not __fish_seen_subcommand_from put list retire decommission help" -f -a "put" -d 'Write a scope, a key of it, or its client certificate. What is not named stays as it is'
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and not __fish_seen_subcommand_from put list retire decommission help" -f -a "list" -d 'Say which scopes there are, which key of each signs now, and what cannot be opened here'
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and not __fish_seen_subcommand_from put list retire decommission help" -f -a "retire" -d 'End a key\'s time of signing. Its public half stays published for as long as deliveries are out'
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and not __fish_seen_subcommand_from put list retire decommission help" -f -a "decommission" -d 'Give a scope up for good: its rows are quarantined and its private keys deleted'
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and not __fish_seen_subcommand_from put list retire decommission help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and __fish_seen_subcommand_from put" -l key -d 'A private key: PKCS#8 or SEC1 PEM, or a private JWK. "-" is standard input' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and __fish_seen_subcommand_from put" -l key-id -d 'The key id of a PEM. A JWK has its own' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and __fish_seen_subcommand_from put" -l passphrase-file -d 'What an encrypted PEM is opened with. The key is stored under the envelope key alone' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and __fish_seen_subcommand_from put" -l not-before -d 'When the key begins to sign, as 2026-12-01T00:00:00Z, or "none"' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and __fish_seen_subcommand_from put" -l not-after -d 'When the key ends to sign, or "none"' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and __fish_seen_subcommand_from put" -l algorithms -d 'What the scope\'s seller advertises, comma separated [default: as it is; of a new scope, the key\'s]' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and __fish_seen_subcommand_from put" -l client-cert -d 'PEM: the certificate chain, leaf first, for receivers that demand a client certificate' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and __fish_seen_subcommand_from put" -l client-key -d 'PEM: the private key of the client certificate' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and __fish_seen_subcommand_from put" -l outbox -d 'Of several `[[outboxes]]`, only the one with this name' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and __fish_seen_subcommand_from put" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and __fish_seen_subcommand_from put" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and __fish_seen_subcommand_from put" -l no-client-cert -d 'Take the scope\'s client certificate away'
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and __fish_seen_subcommand_from put" -s h -l help -d 'Print help'
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and __fish_seen_subcommand_from list" -l outbox -d 'Of several `[[outboxes]]`, only the one with this name' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and __fish_seen_subcommand_from list" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and __fish_seen_subcommand_from list" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and __fish_seen_subcommand_from list" -l json -d 'One JSON object a line'
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and __fish_seen_subcommand_from retire" -l at -d 'When it signs for the last time, as 2026-12-01T00:00:00Z [default: now]' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and __fish_seen_subcommand_from retire" -l outbox -d 'Of several `[[outboxes]]`, only the one with this name' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and __fish_seen_subcommand_from retire" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and __fish_seen_subcommand_from retire" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and __fish_seen_subcommand_from retire" -l stolen -d 'Take it away instead, at once and from the published key sets too: nothing that it signed is to be believed'
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and __fish_seen_subcommand_from retire" -s h -l help -d 'Print help'
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and __fish_seen_subcommand_from decommission" -l outbox -d 'Of several `[[outboxes]]`, only the one with this name' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and __fish_seen_subcommand_from decommission" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and __fish_seen_subcommand_from decommission" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and __fish_seen_subcommand_from decommission" -l unknown -d 'Also where no such scope is known: rows that name it are then quarantined instead of waiting for it'
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and __fish_seen_subcommand_from decommission" -s h -l help -d 'Print help'
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and __fish_seen_subcommand_from help" -f -a "put" -d 'Write a scope, a key of it, or its client certificate. What is not named stays as it is'
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and __fish_seen_subcommand_from help" -f -a "list" -d 'Say which scopes there are, which key of each signs now, and what cannot be opened here'
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and __fish_seen_subcommand_from help" -f -a "retire" -d 'End a key\'s time of signing. Its public half stays published for as long as deliveries are out'
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and __fish_seen_subcommand_from help" -f -a "decommission" -d 'Give a scope up for good: its rows are quarantined and its private keys deleted'
complete -c outboxd -n "__fish_outboxd_using_subcommand scope; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c outboxd -n "__fish_outboxd_using_subcommand config" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand config" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand config" -s h -l help -d 'Print help'
complete -c outboxd -n "__fish_outboxd_using_subcommand codes" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand codes" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand codes" -l markdown -d 'As a Markdown table, the one that the README shows'
complete -c outboxd -n "__fish_outboxd_using_subcommand codes" -s h -l help -d 'Print help'
complete -c outboxd -n "__fish_outboxd_using_subcommand completions" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand completions" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand completions" -s h -l help -d 'Print help'
complete -c outboxd -n "__fish_outboxd_using_subcommand man" -l out -d 'Write a page for each command into this directory, instead of the first page to standard output' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand man" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand man" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand man" -s h -l help -d 'Print help'
complete -c outboxd -n "__fish_outboxd_using_subcommand demo" -l rows -d 'How many webhooks to send' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand demo" -s c -l config -d 'Configuration file (TOML). Every key and its default: outboxd config' -r -F
complete -c outboxd -n "__fish_outboxd_using_subcommand demo" -l set -d 'Overrides one setting, for example --set delivery.slots=64. May be repeated' -r
complete -c outboxd -n "__fish_outboxd_using_subcommand demo" -l stay -d 'Stay up after the ledger, until Ctrl-C: print how to reach the database, and each webhook as a buyer receives it'
complete -c outboxd -n "__fish_outboxd_using_subcommand demo" -s h -l help -d 'Print help'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and not __fish_seen_subcommand_from run receive migrate check doctor check-url seal open verify rekey keys requeue cancel expire purge destinations status why tail healthcheck list keygen scope config codes completions man demo help" -f -a "run" -d 'Deliver until stopped. SIGTERM and SIGINT drain, a second one gives back at once, SIGHUP reloads keys and egress, as does a changed file'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and not __fish_seen_subcommand_from run receive migrate check doctor check-url seal open verify rekey keys requeue cancel expire purge destinations status why tail healthcheck list keygen scope config codes completions man demo help" -f -a "receive" -d 'Take in notifications until stopped: each is stored in Postgres before it is acknowledged. SIGTERM and SIGINT drain'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and not __fish_seen_subcommand_from run receive migrate check doctor check-url seal open verify rekey keys requeue cancel expire purge destinations status why tail healthcheck list keygen scope config codes completions man demo help" -f -a "migrate" -d 'Create or update the tables that the host and the daemon share'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and not __fish_seen_subcommand_from run receive migrate check doctor check-url seal open verify rekey keys requeue cancel expire purge destinations status why tail healthcheck list keygen scope config codes completions man demo help" -f -a "check" -d 'Look at everything `run` needs, one line each, and say what to do about what is wrong'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and not __fish_seen_subcommand_from run receive migrate check doctor check-url seal open verify rekey keys requeue cancel expire purge destinations status why tail healthcheck list keygen scope config codes completions man demo help" -f -a "doctor" -d 'Look at everything as `check` does, then at the last hour, and say what to do'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and not __fish_seen_subcommand_from run receive migrate check doctor check-url seal open verify rekey keys requeue cancel expire purge destinations status why tail healthcheck list keygen scope config codes completions man demo help" -f -a "check-url" -d 'Say whether a URL would be delivered to: each DNS answer, what it is, and which rule decides. Connects to no receiver'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and not __fish_seen_subcommand_from run receive migrate check doctor check-url seal open verify rekey keys requeue cancel expire purge destinations status why tail healthcheck list keygen scope config codes completions man demo help" -f -a "seal" -d 'Seal registrations and webhooks for a host without cryptography: JSON on standard input, JSON out'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and not __fish_seen_subcommand_from run receive migrate check doctor check-url seal open verify rekey keys requeue cancel expire purge destinations status why tail healthcheck list keygen scope config codes completions man demo help" -f -a "open" -d 'Say what a sealed row holds, which key opens it, and what is wrong where none does. Never prints credentials'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and not __fish_seen_subcommand_from run receive migrate check doctor check-url seal open verify rekey keys requeue cancel expire purge destinations status why tail healthcheck list keygen scope config codes completions man demo help" -f -a "verify" -d 'Judge a captured request by the receiver\'s checks: which of them fails, with which code, and what to do'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and not __fish_seen_subcommand_from run receive migrate check doctor check-url seal open verify rekey keys requeue cancel expire purge destinations status why tail healthcheck list keygen scope config codes completions man demo help" -f -a "rekey" -d 'Seal what is open again under the newest envelope key, while daemons deliver. May be broken off and run again'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and not __fish_seen_subcommand_from run receive migrate check doctor check-url seal open verify rekey keys requeue cancel expire purge destinations status why tail healthcheck list keygen scope config codes completions man demo help" -f -a "keys" -d 'Say which keys there are, who holds them, what needs each, and whether one can go'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and not __fish_seen_subcommand_from run receive migrate check doctor check-url seal open verify rekey keys requeue cancel expire purge destinations status why tail healthcheck list keygen scope config codes completions man demo help" -f -a "requeue" -d 'Have rows tried again that were quarantined or expired, or that wait: counted first, by filter'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and not __fish_seen_subcommand_from run receive migrate check doctor check-url seal open verify rekey keys requeue cancel expire purge destinations status why tail healthcheck list keygen scope config codes completions man demo help" -f -a "cancel" -d 'Take open rows out of delivery: counted first, by filter'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and not __fish_seen_subcommand_from run receive migrate check doctor check-url seal open verify rekey keys requeue cancel expire purge destinations status why tail healthcheck list keygen scope config codes completions man demo help" -f -a "expire" -d 'End open rows as though their retry horizon were over: counted first, by filter'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and not __fish_seen_subcommand_from run receive migrate check doctor check-url seal open verify rekey keys requeue cancel expire purge destinations status why tail healthcheck list keygen scope config codes completions man demo help" -f -a "purge" -d 'Delete finished rows past their horizon: counted first, by filter'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and not __fish_seen_subcommand_from run receive migrate check doctor check-url seal open verify rekey keys requeue cancel expire purge destinations status why tail healthcheck list keygen scope config codes completions man demo help" -f -a "destinations" -d 'Show where due rows are to go and which destinations are parked, why and for how long; or let one go'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and not __fish_seen_subcommand_from run receive migrate check doctor check-url seal open verify rekey keys requeue cancel expire purge destinations status why tail healthcheck list keygen scope config codes completions man demo help" -f -a "status" -d 'Say how it stands: what is due and since when, what goes wrong and where, who delivers, and what to do about it'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and not __fish_seen_subcommand_from run receive migrate check doctor check-url seal open verify rekey keys requeue cancel expire purge destinations status why tail healthcheck list keygen scope config codes completions man demo help" -f -a "why" -d 'Tell one webhook\'s life in plain words: what happened, what happens next and when, or what to do'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and not __fish_seen_subcommand_from run receive migrate check doctor check-url seal open verify rekey keys requeue cancel expire purge destinations status why tail healthcheck list keygen scope config codes completions man demo help" -f -a "tail" -d 'Show attempts as they happen'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and not __fish_seen_subcommand_from run receive migrate check doctor check-url seal open verify rekey keys requeue cancel expire purge destinations status why tail healthcheck list keygen scope config codes completions man demo help" -f -a "healthcheck" -d 'Ask the daemon beside it whether it lives, for a container\'s health check'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and not __fish_seen_subcommand_from run receive migrate check doctor check-url seal open verify rekey keys requeue cancel expire purge destinations status why tail healthcheck list keygen scope config codes completions man demo help" -f -a "list" -d 'List rows, newest first: what state each is in, how often it was tried, what is next. By state, account, destination, age or code'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and not __fish_seen_subcommand_from run receive migrate check doctor check-url seal open verify rekey keys requeue cancel expire purge destinations status why tail healthcheck list keygen scope config codes completions man demo help" -f -a "keygen" -d 'Make an encryption key or a signing key'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and not __fish_seen_subcommand_from run receive migrate check doctor check-url seal open verify rekey keys requeue cancel expire purge destinations status why tail healthcheck list keygen scope config codes completions man demo help" -f -a "scope" -d 'Write, list and end the signing scopes of the table that every replica signs by (`signing.scopes_table`)'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and not __fish_seen_subcommand_from run receive migrate check doctor check-url seal open verify rekey keys requeue cancel expire purge destinations status why tail healthcheck list keygen scope config codes completions man demo help" -f -a "config" -d 'Print the default configuration: every key, its unit, its default and what it is for'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and not __fish_seen_subcommand_from run receive migrate check doctor check-url seal open verify rekey keys requeue cancel expire purge destinations status why tail healthcheck list keygen scope config codes completions man demo help" -f -a "codes" -d 'Print every outcome code: what happens to the row, who can mend it, and what it means'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and not __fish_seen_subcommand_from run receive migrate check doctor check-url seal open verify rekey keys requeue cancel expire purge destinations status why tail healthcheck list keygen scope config codes completions man demo help" -f -a "completions" -d 'Print the completion script of a shell'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and not __fish_seen_subcommand_from run receive migrate check doctor check-url seal open verify rekey keys requeue cancel expire purge destinations status why tail healthcheck list keygen scope config codes completions man demo help" -f -a "man" -d 'Print the manual, or write a page for each command'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and not __fish_seen_subcommand_from run receive migrate check doctor check-url seal open verify rekey keys requeue cancel expire purge destinations status why tail healthcheck list keygen scope config codes completions man demo help" -f -a "demo" -d 'See it work: a throwaway Postgres, buyers on loopback and 2,000 webhooks, all removed afterwards'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and not __fish_seen_subcommand_from run receive migrate check doctor check-url seal open verify rekey keys requeue cancel expire purge destinations status why tail healthcheck list keygen scope config codes completions man demo help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and __fish_seen_subcommand_from receive" -f -a "import" -d 'Bring the source CMS\'s SQLite ledger (version 1 or 2) into the inbox. Stop its receiver first.'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and __fish_seen_subcommand_from keygen" -f -a "envelope" -d 'An envelope key: 32 random bytes, as 64 hex digits'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and __fish_seen_subcommand_from keygen" -f -a "ed25519" -d 'An Ed25519 signing key (`ed25519`); take this one unless your buyers cannot verify it'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and __fish_seen_subcommand_from keygen" -f -a "p256" -d 'A P-256 signing key (`ecdsa-p256-sha256`)'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and __fish_seen_subcommand_from scope" -f -a "put" -d 'Write a scope, a key of it, or its client certificate. What is not named stays as it is'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and __fish_seen_subcommand_from scope" -f -a "list" -d 'Say which scopes there are, which key of each signs now, and what cannot be opened here'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and __fish_seen_subcommand_from scope" -f -a "retire" -d 'End a key\'s time of signing. Its public half stays published for as long as deliveries are out'
complete -c outboxd -n "__fish_outboxd_using_subcommand help; and __fish_seen_subcommand_from scope" -f -a "decommission" -d 'Give a scope up for good: its rows are quarantined and its private keys deleted'
