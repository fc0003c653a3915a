// The manifest of a Slurm run <-> JSON. Every task reads it on another machine, so what it lacks is named exactly.
#include <limits>

#include "harness/json_reader.h"
#include "harness/record.h"
#include "harness/slurm.h"

namespace stepbench {
namespace {

constexpr int64_t kManifestVersion = 1;
constexpr int64_t kMany = int64_t{1} << 53;

}  // namespace

std::string manifest_to_json(const SlurmManifest& manifest) {
  JsonReader::Json json;
  json["manifest_version"] = kManifestVersion;
  json["run"] = manifest.run;
  json["created_utc"] = manifest.created_utc;
  json["program"] = manifest.program;
  const SlurmRequest& request = manifest.request;
  json["request"] = {{"account", request.account}, {"partition", request.partition}, {"time", request.time},
                     {"qos", request.qos},         {"gres", request.gres},           {"constraint", request.constraint},
                     {"mem", request.memory},      {"cpus", request.cpus},           {"at_once", request.at_once}};
  const EvalArguments& eval = manifest.eval;
  json["evaluation"] = {{"task", eval.task},        {"device", eval.device},     {"suite", eval.suite},
                        {"salt", eval.salt},        {"baseline", eval.baseline}, {"timeout_s", eval.timeout_s},
                        {"no_cache", eval.no_cache}};
  const Submission& submission = manifest.submission;
  json["submission"] = {{"name", submission.name},
                        {"model", submission.model},
                        {"note", submission.note},
                        {"round", submission.round},
                        {"prompt_tokens", submission.prompt_tokens},
                        {"completion_tokens", submission.completion_tokens},
                        {"cost_usd", submission.cost_usd}};
  json["candidates"] = JsonReader::Json::array();
  for (size_t i = 0; i < manifest.candidates.size(); ++i)
    json["candidates"].push_back(
        {{"index", i}, {"path", manifest.candidates[i].path}, {"sha256", manifest.candidates[i].sha256}});
  return json.dump(1, ' ', false, JsonReader::Json::error_handler_t::replace) + "\n";
}

Result<SlurmManifest> manifest_from_json(const std::string& file, const std::string& text) {
  try {
    const JsonReader::Json json = parse_json(file, text);
    const JsonReader root(json, file, "");
    SlurmManifest manifest;
    root.at("manifest_version").integer(kManifestVersion, kManifestVersion);
    manifest.run = root.at("run").text();
    manifest.created_utc = root.at("created_utc").text();
    manifest.program = root.at("program").text();
    const JsonReader request = root.at("request");
    manifest.request = {request.at("account").text(),
                        request.at("partition").text(),
                        request.at("time").text(),
                        request.at("qos").text(),
                        request.at("gres").text(),
                        request.at("constraint").text(),
                        request.at("mem").text(),
                        static_cast<int>(request.at("cpus").integer(0, 1 << 20)),
                        static_cast<int>(request.at("at_once").integer(0, 1 << 20))};
    const JsonReader eval = root.at("evaluation");
    manifest.eval.task = eval.at("task").text();
    manifest.eval.device = eval.at("device").text();
    manifest.eval.suite = eval.at("suite").text();
    manifest.eval.salt = eval.at("salt").text();
    manifest.eval.baseline = eval.at("baseline").text();
    manifest.eval.timeout_s = eval.at("timeout_s").number();
    manifest.eval.no_cache = eval.at("no_cache").boolean();
    const JsonReader submission = root.at("submission");
    manifest.submission.name = submission.at("name").text();
    manifest.submission.model = submission.at("model").text();
    manifest.submission.note = submission.at("note").text();
    manifest.submission.round =
        static_cast<int32_t>(submission.at("round").integer(0, std::numeric_limits<int32_t>::max()));
    manifest.submission.prompt_tokens = submission.at("prompt_tokens").integer(0, kMany);
    manifest.submission.completion_tokens = submission.at("completion_tokens").integer(0, kMany);
    manifest.submission.cost_usd = submission.at("cost_usd").number();
    for (const JsonReader& candidate : root.at("candidates").items()) {
      const auto index = static_cast<int64_t>(manifest.candidates.size());
      candidate.at("index").integer(index, index);
      manifest.candidates.push_back({candidate.at("path").text(), candidate.at("sha256").text()});
    }
    return manifest;
  } catch (const JsonProblem& problem) {
    Error error = problem.error;
    error.code = ErrorCode::kInvalidInput;
    return error;
  }
}

}  // namespace stepbench
