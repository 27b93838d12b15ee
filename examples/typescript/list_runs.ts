/** List the runs of a platform, with how far the training of each is: `npm start [DATA_DIR]`. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createClient, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { State } from "./gen/tutti/common/v1/common_pb.ts";
import { PipelineService } from "./gen/tutti/pipeline/v1/pipeline_pb.ts";

/** Return the token of a role, from the file that the platform keeps in its data directory. */
function token(dataDir: string, role: string): string {
  const line = readFileSync(join(dataDir, "tokens"), "utf8").split("\n").find((each) => each.startsWith(`${role} `));
  if (line === undefined) throw new Error(`${dataDir}/tokens has no token of the role ${role}`);
  return line.slice(role.length + 1).trim();
}

const dataDir = process.argv[2] ?? ".tutti";
const address = readFileSync(join(dataDir, "endpoint"), "utf8").trim();
const secret = token(dataDir, "engineer");
const authorize: Interceptor = (next) => (request) => {
  request.header.set("authorization", `Bearer ${secret}`);
  return next(request);
};
const transport = createGrpcTransport({ baseUrl: `http://${address}`, interceptors: [authorize] });
const client = createClient(PipelineService, transport);

let pageToken = "";
do {
  const page = await client.listRuns({ pageToken });
  for (const { name } of page.runs) {
    const run = await client.getRun({ name });
    console.log(`${run.name}  ${State[run.state]}  step ${run.training?.step ?? 0}`);
  }
  pageToken = page.nextPageToken;
} while (pageToken !== "");
