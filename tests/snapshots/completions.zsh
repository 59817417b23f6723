#compdef outboxd

autoload -U is-at-least

_outboxd() {
    typeset -A opt_args
    typeset -a _arguments_options
    local ret=1

    if is-at-least 5.2; then
        _arguments_options=(-s -S -C)
    else
        _arguments_options=(-s -C)
    fi

    local context curcontext="$curcontext" state line
    _arguments "${_arguments_options[@]}" : \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'-V[Print version]' \
'--version[Print version]' \
":: :_outboxd_commands" \
"*::: :->outboxd" \
&& ret=0
    case $state in
    (outboxd)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:outboxd-command-$line[1]:"
        case $line[1] in
            (run)
_arguments "${_arguments_options[@]}" : \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(receive)
_arguments "${_arguments_options[@]}" : \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'--demo[See it work, without any configuration\: a throwaway Postgres, senders that repeat themselves, and a kill]' \
'-h[Print help]' \
'--help[Print help]' \
":: :_outboxd__subcmd__receive_commands" \
"*::: :->receive" \
&& ret=0

    case $state in
    (receive)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:outboxd-receive-command-$line[1]:"
        case $line[1] in
            (import)
_arguments "${_arguments_options[@]}" : \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'--dry-run[Check every row, say what would be imported, and write nothing]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
':file -- The ledger'\''s file. It is only read:_files' \
&& ret=0
;;
(help)
_arguments "${_arguments_options[@]}" : \
":: :_outboxd__subcmd__receive__subcmd__help_commands" \
"*::: :->help" \
&& ret=0

    case $state in
    (help)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:outboxd-receive-help-command-$line[1]:"
        case $line[1] in
            (import)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(help)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
        esac
    ;;
esac
;;
        esac
    ;;
esac
;;
(migrate)
_arguments "${_arguments_options[@]}" : \
'--patience=[How long it tries for locks that open transactions hold. Writers are held up for fractions of a second meanwhile]:TIME:_default' \
'--outbox=[Of several \`\[\[outboxes\]\]\`, only the one with this name]:NAME:_default' \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'(--check)--print[Print the SQL instead of running it, for psql, Alembic or Flyway. Needs no database]' \
'--check[Change nothing; say what is missing, and exit with 78 if anything is]' \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(check)
_arguments "${_arguments_options[@]}" : \
'--outbox=[Of several \`\[\[outboxes\]\]\`, only the one with this name]:NAME:_default' \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'--json[Print one JSON object]' \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(doctor)
_arguments "${_arguments_options[@]}" : \
'--outbox=[Of several \`\[\[outboxes\]\]\`, only the one with this name]:NAME:_default' \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'--json[Print one JSON object]' \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(check-url)
_arguments "${_arguments_options[@]}" : \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'--explain[Say why each step ends as it does, and which setting would change it]' \
'--json[One JSON object for each URL, with everything in it that --explain says]' \
'-h[Print help]' \
'--help[Print help]' \
':url -- The URL as a row would hold it, or `-` for URLs from standard input, one a line:_default' \
&& ret=0
;;
(seal)
_arguments "${_arguments_options[@]}" : \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'--partial[Print what could be sealed although other items are refused; each of those is answered by an object \`error\`]' \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(open)
_arguments "${_arguments_options[@]}" : \
'(--id)--task=[The outbox row of this task, or the registration of the task where it has not ended; else rows from standard input]:TASK_ID:_default' \
'--id=[The outbox row with this id]:ID:_default' \
'--outbox=[Of several \`\[\[outboxes\]\]\`, only the one with this name]:NAME:_default' \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'--body[Show the body too\: what the receiver gets, with the token in it. Credentials are never shown]' \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(verify)
_arguments "${_arguments_options[@]}" : \
'--jwks=[The sender'\''s key set (a JSON Web Key Set, or one JWK). Needed for RFC 9421 signatures]:FILE:_files' \
'--revocation=[Key ids that are not to be trusted\: \`{"revoked_kids"\: \[...\]}\`, with \`updated\` and \`next_update\` if it can grow stale]:FILE:_files' \
'--secret-file=[The shared secret of an HMAC-SHA256 or Standard Webhooks request; one a line where several are in use]:FILE:_files' \
'--at=[When the request came in\: Unix seconds, or RFC 3339 such as 2026-04-18T10\:00\:00Z \[default\: now\]]:TIME:_default' \
'--url=[The scheme and host that the sender aimed at, where the capture shows others, such as those behind a proxy]:ORIGIN:_default' \
'--body=[The body, where the capture does not hold it\: \`curl -v\` prints none]:FILE:_files' \
'--scheme=[What to judge by \[default\: what the request'\''s headers ask for\]]:SCHEME:(rfc9421 hmac-sha256 standard-webhooks)' \
'--profile=[Which profile an RFC 9421 signature must be of]:PROFILE:((webhook\:"Webhooks (\`adcp/webhook-signing/v1\`), in all of AdCP 3.x"
request-signing\:"Requests between agents (\`adcp/request-signing/v1\`) as AdCP 3.2 signs them"
request-signing-3.1\:"The same as AdCP 3.1 signs them\: base64url, and the body may be left out"))' \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'--explain[Also print the signature base with its line ends, both digests, the key that was chosen and the time window]' \
'--json[Print one JSON object]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'::request -- The request\: raw HTTP/1.1, the output of `curl -v`, or a curl command. Standard input where it is left out or `-`:_files' \
&& ret=0
;;
(rekey)
_arguments "${_arguments_options[@]}" : \
'--batch=[Rows to read, seal and write at a time]:ROWS:_default' \
'--rate=[At most so many rows a second. Without it as fast as the database goes]:ROWS_PER_S:_default' \
'--outbox=[Of several \`\[\[outboxes\]\]\`, only the one with this name]:NAME:_default' \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'--dry-run[Only count what would be sealed again]' \
'--json[Print the summary as one JSON object]' \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(keys)
_arguments "${_arguments_options[@]}" : \
'--may-drop=[Whether the key with this fingerprint can be dropped\: exit code 0 if so, 75 and the reasons if not yet]:FINGERPRINT:_default' \
'--quiet=[With --may-drop\: for how long no row may have appeared under the key, such as 1h or 30m]:TIME:_default' \
'--outbox=[Of several \`\[\[outboxes\]\]\`, only the one with this name]:NAME:_default' \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'--json[Print one JSON object]' \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(requeue)
_arguments "${_arguments_options[@]}" : \
'--reason=[Why, for the audit]:TEXT:_default' \
'--actor=[Who, for the audit. By default the user and machine that this runs as]:NAME:_default' \
'--resume=[Go on with a run that was interrupted, with its filter; the run'\''s id was printed, and is in the audit]:RUN:_default' \
'--rate=[At most so many rows a second. 0\: as fast as the database goes]:ROWS_PER_S:_default' \
'--batch=[Rows in one transaction]:ROWS:_default' \
'--limit=[At most so many rows in all]:ROWS:_default' \
'*--state=[Rows in one of these states\: pending, in_flight, delivered, expired, invalid (quarantined). May be repeated]:STATE:(pending in_flight delivered expired invalid)' \
'--account=[Rows of this account]:ID:_default' \
'--destination=[Rows for this host (and port, unless it is 443), or for that of this URL]:HOST:_default' \
'--code=[Rows whose last attempt ended with this code. Every code\: outboxd codes]:CODE:_default' \
'--task=[The row of this task]:ID:_default' \
'--key=[The row with this idempotency key]:KEY:_default' \
'--older-than=[Rows written longer ago, for example 90m or 2d]:TIME:_default' \
'--newer-than=[Rows written since]:TIME:_default' \
'--outbox=[Of several \`\[\[outboxes\]\]\`, only the one with this name]:NAME:_default' \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'--run[Do it. Without this it only counts]' \
'--yes[Do it. Without this it only counts]' \
'--all[Every row that this can be done to, where no filter says which]' \
'--json[Print one JSON object for each outbox]' \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(cancel)
_arguments "${_arguments_options[@]}" : \
'--reason=[Why, for the audit]:TEXT:_default' \
'--actor=[Who, for the audit. By default the user and machine that this runs as]:NAME:_default' \
'--resume=[Go on with a run that was interrupted, with its filter; the run'\''s id was printed, and is in the audit]:RUN:_default' \
'--rate=[At most so many rows a second. 0\: as fast as the database goes]:ROWS_PER_S:_default' \
'--batch=[Rows in one transaction]:ROWS:_default' \
'--limit=[At most so many rows in all]:ROWS:_default' \
'*--state=[Rows in one of these states\: pending, in_flight, delivered, expired, invalid (quarantined). May be repeated]:STATE:(pending in_flight delivered expired invalid)' \
'--account=[Rows of this account]:ID:_default' \
'--destination=[Rows for this host (and port, unless it is 443), or for that of this URL]:HOST:_default' \
'--code=[Rows whose last attempt ended with this code. Every code\: outboxd codes]:CODE:_default' \
'--task=[The row of this task]:ID:_default' \
'--key=[The row with this idempotency key]:KEY:_default' \
'--older-than=[Rows written longer ago, for example 90m or 2d]:TIME:_default' \
'--newer-than=[Rows written since]:TIME:_default' \
'--outbox=[Of several \`\[\[outboxes\]\]\`, only the one with this name]:NAME:_default' \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'--run[Do it. Without this it only counts]' \
'--yes[Do it. Without this it only counts]' \
'--all[Every row that this can be done to, where no filter says which]' \
'--json[Print one JSON object for each outbox]' \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(expire)
_arguments "${_arguments_options[@]}" : \
'--reason=[Why, for the audit]:TEXT:_default' \
'--actor=[Who, for the audit. By default the user and machine that this runs as]:NAME:_default' \
'--resume=[Go on with a run that was interrupted, with its filter; the run'\''s id was printed, and is in the audit]:RUN:_default' \
'--rate=[At most so many rows a second. 0\: as fast as the database goes]:ROWS_PER_S:_default' \
'--batch=[Rows in one transaction]:ROWS:_default' \
'--limit=[At most so many rows in all]:ROWS:_default' \
'*--state=[Rows in one of these states\: pending, in_flight, delivered, expired, invalid (quarantined). May be repeated]:STATE:(pending in_flight delivered expired invalid)' \
'--account=[Rows of this account]:ID:_default' \
'--destination=[Rows for this host (and port, unless it is 443), or for that of this URL]:HOST:_default' \
'--code=[Rows whose last attempt ended with this code. Every code\: outboxd codes]:CODE:_default' \
'--task=[The row of this task]:ID:_default' \
'--key=[The row with this idempotency key]:KEY:_default' \
'--older-than=[Rows written longer ago, for example 90m or 2d]:TIME:_default' \
'--newer-than=[Rows written since]:TIME:_default' \
'--outbox=[Of several \`\[\[outboxes\]\]\`, only the one with this name]:NAME:_default' \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'--run[Do it. Without this it only counts]' \
'--yes[Do it. Without this it only counts]' \
'--all[Every row that this can be done to, where no filter says which]' \
'--json[Print one JSON object for each outbox]' \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(purge)
_arguments "${_arguments_options[@]}" : \
'--reason=[Why, for the audit]:TEXT:_default' \
'--actor=[Who, for the audit. By default the user and machine that this runs as]:NAME:_default' \
'--resume=[Go on with a run that was interrupted, with its filter; the run'\''s id was printed, and is in the audit]:RUN:_default' \
'--rate=[At most so many rows a second. 0\: as fast as the database goes]:ROWS_PER_S:_default' \
'--batch=[Rows in one transaction]:ROWS:_default' \
'--limit=[At most so many rows in all]:ROWS:_default' \
'*--state=[Rows in one of these states\: pending, in_flight, delivered, expired, invalid (quarantined). May be repeated]:STATE:(pending in_flight delivered expired invalid)' \
'--account=[Rows of this account]:ID:_default' \
'--destination=[Rows for this host (and port, unless it is 443), or for that of this URL]:HOST:_default' \
'--code=[Rows whose last attempt ended with this code. Every code\: outboxd codes]:CODE:_default' \
'--task=[The row of this task]:ID:_default' \
'--key=[The row with this idempotency key]:KEY:_default' \
'--older-than=[Rows written longer ago, for example 90m or 2d]:TIME:_default' \
'--newer-than=[Rows written since]:TIME:_default' \
'--outbox=[Of several \`\[\[outboxes\]\]\`, only the one with this name]:NAME:_default' \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'--run[Do it. Without this it only counts]' \
'--yes[Do it. Without this it only counts]' \
'--all[Every row that this can be done to, where no filter says which]' \
'--json[Print one JSON object for each outbox]' \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(destinations)
_arguments "${_arguments_options[@]}" : \
'*--release=[Let these destinations go, as the list names them\: each begins anew with one attempt at a time]:NAME:_default' \
'*--resume=[Let these destinations go, as the list names them\: each begins anew with one attempt at a time]:NAME:_default' \
'*--park=[Leave these destinations alone, whatever they would answer\: their rows wait, and keep their retry horizon]:NAME:_default' \
'--for=[For how long, for example 2h. Then one row is tried, as after any pause]:TIME:_default' \
'*--cap=[Give these destinations no more than \`--most\` attempts at once from each replica]:NAME:_default' \
'--most=[How many attempts at once]:ATTEMPTS:_default' \
'*--uncap=[Give these destinations as many as the configuration allows again]:NAME:_default' \
'--reason=[Why, for the audit]:TEXT:_default' \
'--actor=[Who, for the audit. By default the user and machine that this runs as]:NAME:_default' \
'--outbox=[Of several \`\[\[outboxes\]\]\`, only the one with this name]:NAME:_default' \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'--json[Print one JSON object]' \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(status)
_arguments "${_arguments_options[@]}" : \
'--outbox=[Of several \`\[\[outboxes\]\]\`, only the one with this name]:NAME:_default' \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'--json[Print one JSON object]' \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(why)
_arguments "${_arguments_options[@]}" : \
'--outbox=[Of several \`\[\[outboxes\]\]\`, only the one with this name]:NAME:_default' \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'--json[Print one JSON object]' \
'-h[Print help]' \
'--help[Print help]' \
':webhook -- The webhook'\''s idempotency key, its task'\''s id, or its row'\''s number:_default' \
&& ret=0
;;
(tail)
_arguments "${_arguments_options[@]}" : \
'--account=[Attempts for this account]:ID:_default' \
'--code=[Attempts that ended with this code]:CODE:_default' \
'-n+[How many of the last hour'\''s attempts to begin with]:N:_default' \
'--lines=[How many of the last hour'\''s attempts to begin with]:N:_default' \
'--outbox=[Of several \`\[\[outboxes\]\]\`, only the one with this name]:NAME:_default' \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'--failed[Only attempts that were not taken]' \
'--no-follow[End after those]' \
'--json[Print one JSON object a line]' \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(healthcheck)
_arguments "${_arguments_options[@]}" : \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'--ready[Ask whether it is ready, which depends on its database and its clock too, and not only whether it lives]' \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(list)
_arguments "${_arguments_options[@]}" : \
'*--state=[Rows in one of these states\: pending, in_flight, delivered, expired, invalid (quarantined). May be repeated]:STATE:(pending in_flight delivered expired invalid)' \
'--account=[Rows of this account]:ID:_default' \
'--destination=[Rows for this host (and port, unless it is 443), or for that of this URL]:HOST:_default' \
'--code=[Rows whose last attempt ended with this code. Every code\: outboxd codes]:CODE:_default' \
'--task=[The row of this task]:ID:_default' \
'--key=[The row with this idempotency key]:KEY:_default' \
'--older-than=[Rows written longer ago, for example 90m or 2d]:TIME:_default' \
'--newer-than=[Rows written since]:TIME:_default' \
'--limit=[Rows on a page]:N:_default' \
'--after=[The page after this one\: the id that the page before ended with]:ID:_default' \
'--outbox=[Of several \`\[\[outboxes\]\]\`, only the one with this name]:NAME:_default' \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'--json[Print one JSON object\: the rows, and what --after takes for the next page]' \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(keygen)
_arguments "${_arguments_options[@]}" : \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'-h[Print help]' \
'--help[Print help]' \
":: :_outboxd__subcmd__keygen_commands" \
"*::: :->keygen" \
&& ret=0

    case $state in
    (keygen)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:outboxd-keygen-command-$line[1]:"
        case $line[1] in
            (envelope)
_arguments "${_arguments_options[@]}" : \
'--out=[File for the key, readable by its owner only; it must not exist yet]:FILE:_files' \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
&& ret=0
;;
(ed25519)
_arguments "${_arguments_options[@]}" : \
'--kid=[Key id that receivers look the public key up by \[default\: the key'\''s RFC 7638 thumbprint\]]:KID:_default' \
'--out=[File for the private key, readable by its owner only; it must not exist yet]:FILE:_files' \
'--jwk=[File for the public JWK, which must not exist yet \[default\: standard output\]]:FILE:_files' \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(p256)
_arguments "${_arguments_options[@]}" : \
'--kid=[Key id that receivers look the public key up by \[default\: the key'\''s RFC 7638 thumbprint\]]:KID:_default' \
'--out=[File for the private key, readable by its owner only; it must not exist yet]:FILE:_files' \
'--jwk=[File for the public JWK, which must not exist yet \[default\: standard output\]]:FILE:_files' \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(help)
_arguments "${_arguments_options[@]}" : \
":: :_outboxd__subcmd__keygen__subcmd__help_commands" \
"*::: :->help" \
&& ret=0

    case $state in
    (help)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:outboxd-keygen-help-command-$line[1]:"
        case $line[1] in
            (envelope)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(ed25519)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(p256)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(help)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
        esac
    ;;
esac
;;
        esac
    ;;
esac
;;
(scope)
_arguments "${_arguments_options[@]}" : \
'--outbox=[Of several \`\[\[outboxes\]\]\`, only the one with this name]:NAME:_default' \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'-h[Print help]' \
'--help[Print help]' \
":: :_outboxd__subcmd__scope_commands" \
"*::: :->scope" \
&& ret=0

    case $state in
    (scope)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:outboxd-scope-command-$line[1]:"
        case $line[1] in
            (put)
_arguments "${_arguments_options[@]}" : \
'--key=[A private key\: PKCS#8 or SEC1 PEM, or a private JWK. "-" is standard input]:FILE:_files' \
'--key-id=[The key id of a PEM. A JWK has its own]:KID:_default' \
'--passphrase-file=[What an encrypted PEM is opened with. The key is stored under the envelope key alone]:FILE:_files' \
'--not-before=[When the key begins to sign, as 2026-12-01T00\:00\:00Z, or "none"]:MOMENT:_default' \
'--not-after=[When the key ends to sign, or "none"]:MOMENT:_default' \
'*--algorithms=[What the scope'\''s seller advertises, comma separated \[default\: as it is; of a new scope, the key'\''s\]]:NAMES:_default' \
'--client-cert=[PEM\: the certificate chain, leaf first, for receivers that demand a client certificate]:FILE:_files' \
'--client-key=[PEM\: the private key of the client certificate]:FILE:_files' \
'--outbox=[Of several \`\[\[outboxes\]\]\`, only the one with this name]:NAME:_default' \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'(--client-cert)--no-client-cert[Take the scope'\''s client certificate away]' \
'-h[Print help]' \
'--help[Print help]' \
':scope -- As rows name it in `signing_scope_id`:_default' \
&& ret=0
;;
(list)
_arguments "${_arguments_options[@]}" : \
'--outbox=[Of several \`\[\[outboxes\]\]\`, only the one with this name]:NAME:_default' \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'--json[One JSON object a line]' \
'-h[Print help]' \
'--help[Print help]' \
'::scope -- Only this scope:_default' \
&& ret=0
;;
(retire)
_arguments "${_arguments_options[@]}" : \
'--at=[When it signs for the last time, as 2026-12-01T00\:00\:00Z \[default\: now\]]:MOMENT:_default' \
'--outbox=[Of several \`\[\[outboxes\]\]\`, only the one with this name]:NAME:_default' \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'(--at)--stolen[Take it away instead, at once and from the published key sets too\: nothing that it signed is to be believed]' \
'-h[Print help]' \
'--help[Print help]' \
':scope:_default' \
':key_id:_default' \
&& ret=0
;;
(decommission)
_arguments "${_arguments_options[@]}" : \
'--outbox=[Of several \`\[\[outboxes\]\]\`, only the one with this name]:NAME:_default' \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'--unknown[Also where no such scope is known\: rows that name it are then quarantined instead of waiting for it]' \
'-h[Print help]' \
'--help[Print help]' \
':scope:_default' \
&& ret=0
;;
(help)
_arguments "${_arguments_options[@]}" : \
":: :_outboxd__subcmd__scope__subcmd__help_commands" \
"*::: :->help" \
&& ret=0

    case $state in
    (help)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:outboxd-scope-help-command-$line[1]:"
        case $line[1] in
            (put)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(list)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(retire)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(decommission)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(help)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
        esac
    ;;
esac
;;
        esac
    ;;
esac
;;
(config)
_arguments "${_arguments_options[@]}" : \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(codes)
_arguments "${_arguments_options[@]}" : \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'--markdown[As a Markdown table, the one that the README shows]' \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(completions)
_arguments "${_arguments_options[@]}" : \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'-h[Print help]' \
'--help[Print help]' \
':shell -- The shell that reads it:(bash elvish fish powershell zsh)' \
&& ret=0
;;
(man)
_arguments "${_arguments_options[@]}" : \
'--out=[Write a page for each command into this directory, instead of the first page to standard output]:DIR:_files' \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(demo)
_arguments "${_arguments_options[@]}" : \
'--rows=[How many webhooks to send]:ROWS:_default' \
'-c+[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'--config=[Configuration file (TOML). Every key and its default\: outboxd config]:FILE:_files' \
'*--set=[Overrides one setting, for example --set delivery.slots=64. May be repeated]:SECTION.KEY=VALUE:_default' \
'--stay[Stay up after the ledger, until Ctrl-C\: print how to reach the database, and each webhook as a buyer receives it]' \
'-h[Print help]' \
'--help[Print help]' \
&& ret=0
;;
(help)
_arguments "${_arguments_options[@]}" : \
":: :_outboxd__subcmd__help_commands" \
"*::: :->help" \
&& ret=0

    case $state in
    (help)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:outboxd-help-command-$line[1]:"
        case $line[1] in
            (run)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(receive)
_arguments "${_arguments_options[@]}" : \
":: :_outboxd__subcmd__help__subcmd__receive_commands" \
"*::: :->receive" \
&& ret=0

    case $state in
    (receive)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:outboxd-help-receive-command-$line[1]:"
        case $line[1] in
            (import)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
        esac
    ;;
esac
;;
(migrate)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(check)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(doctor)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(check-url)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(seal)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(open)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(verify)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(rekey)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(keys)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(requeue)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(cancel)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(expire)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(purge)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(destinations)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(status)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(why)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(tail)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(healthcheck)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(list)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(keygen)
_arguments "${_arguments_options[@]}" : \
":: :_outboxd__subcmd__help__subcmd__keygen_commands" \
"*::: :->keygen" \
&& ret=0

    case $state in
    (keygen)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:outboxd-help-keygen-command-$line[1]:"
        case $line[1] in
            (envelope)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(ed25519)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(p256)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
        esac
    ;;
esac
;;
(scope)
_arguments "${_arguments_options[@]}" : \
":: :_outboxd__subcmd__help__subcmd__scope_commands" \
"*::: :->scope" \
&& ret=0

    case $state in
    (scope)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:outboxd-help-scope-command-$line[1]:"
        case $line[1] in
            (put)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(list)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(retire)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(decommission)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
        esac
    ;;
esac
;;
(config)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(codes)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(completions)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(man)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(demo)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(help)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
        esac
    ;;
esac
;;
        esac
    ;;
esac
}

(( $+functions[_outboxd_commands] )) ||
_outboxd_commands() {
    local commands; commands=(
'run:Deliver until stopped. SIGTERM and SIGINT drain, a second one gives back at once, SIGHUP reloads keys and egress, as does a changed file' \
'receive:Take in notifications until stopped\: each is stored in Postgres before it is acknowledged. SIGTERM and SIGINT drain' \
'migrate:Create or update the tables that the host and the daemon share' \
'check:Look at everything \`run\` needs, one line each, and say what to do about what is wrong' \
'doctor:Look at everything as \`check\` does, then at the last hour, and say what to do' \
'check-url:Say whether a URL would be delivered to\: each DNS answer, what it is, and which rule decides. Connects to no receiver' \
'seal:Seal registrations and webhooks for a host without cryptography\: JSON on standard input, JSON out' \
'open:Say what a sealed row holds, which key opens it, and what is wrong where none does. Never prints credentials' \
'verify:Judge a captured request by the receiver'\''s checks\: which of them fails, with which code, and what to do' \
'rekey:Seal what is open again under the newest envelope key, while daemons deliver. May be broken off and run again' \
'keys:Say which keys there are, who holds them, what needs each, and whether one can go' \
'requeue:Have rows tried again that were quarantined or expired, or that wait\: counted first, by filter' \
'cancel:Take open rows out of delivery\: counted first, by filter' \
'expire:End open rows as though their retry horizon were over\: counted first, by filter' \
'purge:Delete finished rows past their horizon\: counted first, by filter' \
'destinations:Show where due rows are to go and which destinations are parked, why and for how long; or let one go' \
'status:Say how it stands\: what is due and since when, what goes wrong and where, who delivers, and what to do about it' \
'why:Tell one webhook'\''s life in plain words\: what happened, what happens next and when, or what to do' \
'tail:Show attempts as they happen' \
'healthcheck:Ask the daemon beside it whether it lives, for a container'\''s health check' \
'list:List rows, newest first\: what state each is in, how often it was tried, what is next. By state, account, destination, age or code' \
'keygen:Make an encryption key or a signing key' \
'scope:Write, list and end the signing scopes of the table that every replica signs by (\`signing.scopes_table\`)' \
'config:Print the default configuration\: every key, its unit, its default and what it is for' \
'codes:Print every outcome code\: what happens to the row, who can mend it, and what it means' \
'completions:Print the completion script of a shell' \
'man:Print the manual, or write a page for each command' \
'demo:See it work\: a throwaway Postgres, buyers on loopback and 2,000 webhooks, all removed afterwards' \
'help:Print this message or the help of the given subcommand(s)' \
    )
    _describe -t commands 'outboxd commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__cancel_commands] )) ||
_outboxd__subcmd__cancel_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd cancel commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__check_commands] )) ||
_outboxd__subcmd__check_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd check commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__check-url_commands] )) ||
_outboxd__subcmd__check-url_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd check-url commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__codes_commands] )) ||
_outboxd__subcmd__codes_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd codes commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__completions_commands] )) ||
_outboxd__subcmd__completions_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd completions commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__config_commands] )) ||
_outboxd__subcmd__config_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd config commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__demo_commands] )) ||
_outboxd__subcmd__demo_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd demo commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__destinations_commands] )) ||
_outboxd__subcmd__destinations_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd destinations commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__doctor_commands] )) ||
_outboxd__subcmd__doctor_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd doctor commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__expire_commands] )) ||
_outboxd__subcmd__expire_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd expire commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__healthcheck_commands] )) ||
_outboxd__subcmd__healthcheck_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd healthcheck commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help_commands] )) ||
_outboxd__subcmd__help_commands() {
    local commands; commands=(
'run:Deliver until stopped. SIGTERM and SIGINT drain, a second one gives back at once, SIGHUP reloads keys and egress, as does a changed file' \
'receive:Take in notifications until stopped\: each is stored in Postgres before it is acknowledged. SIGTERM and SIGINT drain' \
'migrate:Create or update the tables that the host and the daemon share' \
'check:Look at everything \`run\` needs, one line each, and say what to do about what is wrong' \
'doctor:Look at everything as \`check\` does, then at the last hour, and say what to do' \
'check-url:Say whether a URL would be delivered to\: each DNS answer, what it is, and which rule decides. Connects to no receiver' \
'seal:Seal registrations and webhooks for a host without cryptography\: JSON on standard input, JSON out' \
'open:Say what a sealed row holds, which key opens it, and what is wrong where none does. Never prints credentials' \
'verify:Judge a captured request by the receiver'\''s checks\: which of them fails, with which code, and what to do' \
'rekey:Seal what is open again under the newest envelope key, while daemons deliver. May be broken off and run again' \
'keys:Say which keys there are, who holds them, what needs each, and whether one can go' \
'requeue:Have rows tried again that were quarantined or expired, or that wait\: counted first, by filter' \
'cancel:Take open rows out of delivery\: counted first, by filter' \
'expire:End open rows as though their retry horizon were over\: counted first, by filter' \
'purge:Delete finished rows past their horizon\: counted first, by filter' \
'destinations:Show where due rows are to go and which destinations are parked, why and for how long; or let one go' \
'status:Say how it stands\: what is due and since when, what goes wrong and where, who delivers, and what to do about it' \
'why:Tell one webhook'\''s life in plain words\: what happened, what happens next and when, or what to do' \
'tail:Show attempts as they happen' \
'healthcheck:Ask the daemon beside it whether it lives, for a container'\''s health check' \
'list:List rows, newest first\: what state each is in, how often it was tried, what is next. By state, account, destination, age or code' \
'keygen:Make an encryption key or a signing key' \
'scope:Write, list and end the signing scopes of the table that every replica signs by (\`signing.scopes_table\`)' \
'config:Print the default configuration\: every key, its unit, its default and what it is for' \
'codes:Print every outcome code\: what happens to the row, who can mend it, and what it means' \
'completions:Print the completion script of a shell' \
'man:Print the manual, or write a page for each command' \
'demo:See it work\: a throwaway Postgres, buyers on loopback and 2,000 webhooks, all removed afterwards' \
'help:Print this message or the help of the given subcommand(s)' \
    )
    _describe -t commands 'outboxd help commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__cancel_commands] )) ||
_outboxd__subcmd__help__subcmd__cancel_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd help cancel commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__check_commands] )) ||
_outboxd__subcmd__help__subcmd__check_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd help check commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__check-url_commands] )) ||
_outboxd__subcmd__help__subcmd__check-url_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd help check-url commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__codes_commands] )) ||
_outboxd__subcmd__help__subcmd__codes_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd help codes commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__completions_commands] )) ||
_outboxd__subcmd__help__subcmd__completions_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd help completions commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__config_commands] )) ||
_outboxd__subcmd__help__subcmd__config_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd help config commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__demo_commands] )) ||
_outboxd__subcmd__help__subcmd__demo_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd help demo commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__destinations_commands] )) ||
_outboxd__subcmd__help__subcmd__destinations_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd help destinations commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__doctor_commands] )) ||
_outboxd__subcmd__help__subcmd__doctor_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd help doctor commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__expire_commands] )) ||
_outboxd__subcmd__help__subcmd__expire_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd help expire commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__healthcheck_commands] )) ||
_outboxd__subcmd__help__subcmd__healthcheck_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd help healthcheck commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__help_commands] )) ||
_outboxd__subcmd__help__subcmd__help_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd help help commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__keygen_commands] )) ||
_outboxd__subcmd__help__subcmd__keygen_commands() {
    local commands; commands=(
'envelope:An envelope key\: 32 random bytes, as 64 hex digits' \
'ed25519:An Ed25519 signing key (\`ed25519\`); take this one unless your buyers cannot verify it' \
'p256:A P-256 signing key (\`ecdsa-p256-sha256\`)' \
    )
    _describe -t commands 'outboxd help keygen commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__keygen__subcmd__ed25519_commands] )) ||
_outboxd__subcmd__help__subcmd__keygen__subcmd__ed25519_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd help keygen ed25519 commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__keygen__subcmd__envelope_commands] )) ||
_outboxd__subcmd__help__subcmd__keygen__subcmd__envelope_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd help keygen envelope commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__keygen__subcmd__p256_commands] )) ||
_outboxd__subcmd__help__subcmd__keygen__subcmd__p256_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd help keygen p256 commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__keys_commands] )) ||
_outboxd__subcmd__help__subcmd__keys_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd help keys commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__list_commands] )) ||
_outboxd__subcmd__help__subcmd__list_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd help list commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__man_commands] )) ||
_outboxd__subcmd__help__subcmd__man_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd help man commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__migrate_commands] )) ||
_outboxd__subcmd__help__subcmd__migrate_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd help migrate commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__open_commands] )) ||
_outboxd__subcmd__help__subcmd__open_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd help open commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__purge_commands] )) ||
_outboxd__subcmd__help__subcmd__purge_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd help purge commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__receive_commands] )) ||
_outboxd__subcmd__help__subcmd__receive_commands() {
    local commands; commands=(
'import:Bring the source CMS'\''s SQLite ledger (version 1 or 2) into the inbox. Stop its receiver first.' \
    )
    _describe -t commands 'outboxd help receive commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__receive__subcmd__import_commands] )) ||
_outboxd__subcmd__help__subcmd__receive__subcmd__import_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd help receive import commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__rekey_commands] )) ||
_outboxd__subcmd__help__subcmd__rekey_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd help rekey commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__requeue_commands] )) ||
_outboxd__subcmd__help__subcmd__requeue_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd help requeue commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__run_commands] )) ||
_outboxd__subcmd__help__subcmd__run_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd help run commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__scope_commands] )) ||
_outboxd__subcmd__help__subcmd__scope_commands() {
    local commands; commands=(
'put:Write a scope, a key of it, or its client certificate. What is not named stays as it is' \
'list:Say which scopes there are, which key of each signs now, and what cannot be opened here' \
'retire:End a key'\''s time of signing. Its public half stays published for as long as deliveries are out' \
'decommission:Give a scope up for good\: its rows are quarantined and its private keys deleted' \
    )
    _describe -t commands 'outboxd help scope commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__scope__subcmd__decommission_commands] )) ||
_outboxd__subcmd__help__subcmd__scope__subcmd__decommission_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd help scope decommission commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__scope__subcmd__list_commands] )) ||
_outboxd__subcmd__help__subcmd__scope__subcmd__list_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd help scope list commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__scope__subcmd__put_commands] )) ||
_outboxd__subcmd__help__subcmd__scope__subcmd__put_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd help scope put commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__scope__subcmd__retire_commands] )) ||
_outboxd__subcmd__help__subcmd__scope__subcmd__retire_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd help scope retire commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__seal_commands] )) ||
_outboxd__subcmd__help__subcmd__seal_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd help seal commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__status_commands] )) ||
_outboxd__subcmd__help__subcmd__status_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd help status commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__tail_commands] )) ||
_outboxd__subcmd__help__subcmd__tail_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd help tail commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__verify_commands] )) ||
_outboxd__subcmd__help__subcmd__verify_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd help verify commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__help__subcmd__why_commands] )) ||
_outboxd__subcmd__help__subcmd__why_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd help why commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__keygen_commands] )) ||
_outboxd__subcmd__keygen_commands() {
    local commands; commands=(
'envelope:An envelope key\: 32 random bytes, as 64 hex digits' \
'ed25519:An Ed25519 signing key (\`ed25519\`); take this one unless your buyers cannot verify it' \
'p256:A P-256 signing key (\`ecdsa-p256-sha256\`)' \
'help:Print this message or the help of the given subcommand(s)' \
    )
    _describe -t commands 'outboxd keygen commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__keygen__subcmd__ed25519_commands] )) ||
_outboxd__subcmd__keygen__subcmd__ed25519_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd keygen ed25519 commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__keygen__subcmd__envelope_commands] )) ||
_outboxd__subcmd__keygen__subcmd__envelope_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd keygen envelope commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__keygen__subcmd__help_commands] )) ||
_outboxd__subcmd__keygen__subcmd__help_commands() {
    local commands; commands=(
'envelope:An envelope key\: 32 random bytes, as 64 hex digits' \
'ed25519:An Ed25519 signing key (\`ed25519\`); take this one unless your buyers cannot verify it' \
'p256:A P-256 signing key (\`ecdsa-p256-sha256\`)' \
'help:Print this message or the help of the given subcommand(s)' \
    )
    _describe -t commands 'outboxd keygen help commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__keygen__subcmd__help__subcmd__ed25519_commands] )) ||
_outboxd__subcmd__keygen__subcmd__help__subcmd__ed25519_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd keygen help ed25519 commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__keygen__subcmd__help__subcmd__envelope_commands] )) ||
_outboxd__subcmd__keygen__subcmd__help__subcmd__envelope_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd keygen help envelope commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__keygen__subcmd__help__subcmd__help_commands] )) ||
_outboxd__subcmd__keygen__subcmd__help__subcmd__help_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd keygen help help commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__keygen__subcmd__help__subcmd__p256_commands] )) ||
_outboxd__subcmd__keygen__subcmd__help__subcmd__p256_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd keygen help p256 commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__keygen__subcmd__p256_commands] )) ||
_outboxd__subcmd__keygen__subcmd__p256_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd keygen p256 commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__keys_commands] )) ||
_outboxd__subcmd__keys_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd keys commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__list_commands] )) ||
_outboxd__subcmd__list_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd list commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__man_commands] )) ||
_outboxd__subcmd__man_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd man commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__migrate_commands] )) ||
_outboxd__subcmd__migrate_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd migrate commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__open_commands] )) ||
_outboxd__subcmd__open_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd open commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__purge_commands] )) ||
_outboxd__subcmd__purge_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd purge commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__receive_commands] )) ||
_outboxd__subcmd__receive_commands() {
    local commands; commands=(
'import:Bring the source CMS'\''s SQLite ledger (version 1 or 2) into the inbox. Stop its receiver first.' \
'help:Print this message or the help of the given subcommand(s)' \
    )
    _describe -t commands 'outboxd receive commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__receive__subcmd__help_commands] )) ||
_outboxd__subcmd__receive__subcmd__help_commands() {
    local commands; commands=(
'import:Bring the source CMS'\''s SQLite ledger (version 1 or 2) into the inbox. Stop its receiver first.' \
'help:Print this message or the help of the given subcommand(s)' \
    )
    _describe -t commands 'outboxd receive help commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__receive__subcmd__help__subcmd__help_commands] )) ||
_outboxd__subcmd__receive__subcmd__help__subcmd__help_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd receive help help commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__receive__subcmd__help__subcmd__import_commands] )) ||
_outboxd__subcmd__receive__subcmd__help__subcmd__import_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd receive help import commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__receive__subcmd__import_commands] )) ||
_outboxd__subcmd__receive__subcmd__import_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd receive import commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__rekey_commands] )) ||
_outboxd__subcmd__rekey_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd rekey commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__requeue_commands] )) ||
_outboxd__subcmd__requeue_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd requeue commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__run_commands] )) ||
_outboxd__subcmd__run_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd run commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__scope_commands] )) ||
_outboxd__subcmd__scope_commands() {
    local commands; commands=(
'put:Write a scope, a key of it, or its client certificate. What is not named stays as it is' \
'list:Say which scopes there are, which key of each signs now, and what cannot be opened here' \
'retire:End a key'\''s time of signing. Its public half stays published for as long as deliveries are out' \
'decommission:Give a scope up for good\: its rows are quarantined and its private keys deleted' \
'help:Print this message or the help of the given subcommand(s)' \
    )
    _describe -t commands 'outboxd scope commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__scope__subcmd__decommission_commands] )) ||
_outboxd__subcmd__scope__subcmd__decommission_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd scope decommission commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__scope__subcmd__help_commands] )) ||
_outboxd__subcmd__scope__subcmd__help_commands() {
    local commands; commands=(
'put:Write a scope, a key of it, or its client certificate. What is not named stays as it is' \
'list:Say which scopes there are, which key of each signs now, and what cannot be opened here' \
'retire:End a key'\''s time of signing. Its public half stays published for as long as deliveries are out' \
'decommission:Give a scope up for good\: its rows are quarantined and its private keys deleted' \
'help:Print this message or the help of the given subcommand(s)' \
    )
    _describe -t commands 'outboxd scope help commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__scope__subcmd__help__subcmd__decommission_commands] )) ||
_outboxd__subcmd__scope__subcmd__help__subcmd__decommission_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd scope help decommission commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__scope__subcmd__help__subcmd__help_commands] )) ||
_outboxd__subcmd__scope__subcmd__help__subcmd__help_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd scope help help commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__scope__subcmd__help__subcmd__list_commands] )) ||
_outboxd__subcmd__scope__subcmd__help__subcmd__list_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd scope help list commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__scope__subcmd__help__subcmd__put_commands] )) ||
_outboxd__subcmd__scope__subcmd__help__subcmd__put_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd scope help put commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__scope__subcmd__help__subcmd__retire_commands] )) ||
_outboxd__subcmd__scope__subcmd__help__subcmd__retire_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd scope help retire commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__scope__subcmd__list_commands] )) ||
_outboxd__subcmd__scope__subcmd__list_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd scope list commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__scope__subcmd__put_commands] )) ||
_outboxd__subcmd__scope__subcmd__put_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd scope put commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__scope__subcmd__retire_commands] )) ||
_outboxd__subcmd__scope__subcmd__retire_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd scope retire commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__seal_commands] )) ||
_outboxd__subcmd__seal_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd seal commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__status_commands] )) ||
_outboxd__subcmd__status_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd status commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__tail_commands] )) ||
_outboxd__subcmd__tail_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd tail commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__verify_commands] )) ||
_outboxd__subcmd__verify_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd verify commands' commands "$@"
}
(( $+functions[_outboxd__subcmd__why_commands] )) ||
_outboxd__subcmd__why_commands() {
    local commands; commands=()
    _describe -t commands 'outboxd why commands' commands "$@"
}

if [ "$funcstack[1]" = "_outboxd" ]; then
    _outboxd "$@"
else
    compdef _outboxd outboxd
fi
