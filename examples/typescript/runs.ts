/** List the runs of a platform, or follow one until it ends: `npm start -- [--data-dir DATA_DIR] [RUN]`. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { anyUnpack } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { Admin } from "./gen/tutti/admin/v1/admin_pb.ts";
import { State } from "./gen/tutti/common/v1/common_pb.ts";
import { RunSchema } from "./gen/tutti/pipeline/v1/events_pb.ts";
import { PipelineService } from "./gen/tutti/pipeline/v1/pipeline_pb.ts";

/** Return the token of a role, from the file that the platform keeps in its data directory. */
function token(dataDir: string, role: string): string {
  const line = readFileSync(join(dataDir, "tokens"), "utf8").split("\n").find((each) => each.startsWith(`${role} `));
  if (line === undefined) throw new Error(`${dataDir}/tokens has no token of the role ${role}`);
  return line.slice(role.length + 1).trim();
}

const given = parseArgs({ options: { "data-dir": { type: "string", default: ".tutti" } }, allowPositionals: true });
if (given.positionals.length > 1) throw new Error(`expected one RUN, got ${given.positionals.join(" ")}`);
const dataDir = given.values["data-dir"];
const address = readFileSync(join(dataDir, "endpoint"), "utf8").trim();
const secret = token(dataDir, "engineer");
const authorize: Interceptor = (next) => (request) => {
  request.header.set("authorization", `Bearer ${secret}`);
  return next(request);
};
const transport = createGrpcTransport({ baseUrl: `http://${address}`, interceptors: [authorize] });
const client = createClient(PipelineService, transport);

async function list(): Promise<void> {
  let pageToken = "";
  do {
    const page = await client.listRuns({ pageToken });
    for (const { name } of page.runs) {
      const run = await client.getRun({ name });
      console.log(`${run.name}  ${State[run.state]}  step ${run.training?.step ?? 0}`);
    }
    pageToken = page.nextPageToken;
  } while (pageToken !== "");
}

/**
 * Print each snapshot of a run until the run has ended. A stream that breaks is opened again after the newest revision
 * that was seen, so that nothing is printed twice.
 */
async function follow(name: string): Promise<void> {
  const admin = createClient(Admin, transport);
  const ended = [State.DONE, State.FAILED, State.CANCELLED];
  let sinceRevision = 0n;
  for (;;) {
    const stream = new AbortController(); // it has no end of its own, and keeps the program running until it is aborted
    try {
      for await (const { revision, resource } of admin.watch({ name, sinceRevision }, { signal: stream.signal })) {
        const run = resource && anyUnpack(resource, RunSchema);
        if (run === undefined) throw new Error(`${name} is no run`);
        sinceRevision = revision;
        console.log(`${run.name}  revision ${revision}  ${State[run.state]}`);
        if (ended.includes(run.state)) return;
      }
    } catch (error) {
      if (ConnectError.from(error).code !== Code.Unavailable) throw error;
      await new Promise((again) => setTimeout(again, 1000));
    } finally {
      stream.abort();
    }
  }
}

const [name] = given.positionals;
await (name === undefined ? list() : follow(name));
