// Three rounds of matching, each by a key and among what is left.
#include "scoring/regress_match.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

namespace stepbench {
namespace {

using Key = std::tuple<std::string, std::string, std::string>;  // task, name, path or file name

std::string submission_of(const EvalRecord& record) { return record.submission ? record.submission->name : ""; }

std::string file_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

/// All records of one candidate on one side, newest first.
using Group = std::vector<const EvalRecord*>;

std::vector<Group> groups_of(std::span<const EvalRecord> records) {
  std::map<Key, Group> groups;
  for (const EvalRecord& record : records)
    groups[{record.task, submission_of(record), record.candidate.path}].push_back(&record);
  std::vector<Group> list;
  for (auto& [key, group] : groups) {
    std::stable_sort(group.begin(), group.end(), [](const EvalRecord* a, const EvalRecord* b) {
      return std::tie(a->created_utc, a->id) > std::tie(b->created_utc, b->id);  // ISO 8601 sorts as text
    });
    list.push_back(std::move(group));
  }
  return list;
}

bool made_alike(const EvalRecord& a, const EvalRecord& b) {
  return a.task_version == b.task_version && a.suite == b.suite && a.environment.device == b.environment.device;
}

RecordPair choose(const Group& before, const Group& after) {
  RecordPair pair{before.front(), after.front()};
  const auto alike = std::find_if(before.begin(), before.end(),
                                  [&](const EvalRecord* record) { return made_alike(*record, *pair.after); });
  if (alike != before.end()) pair.before = *alike;
  return pair;
}

/// Moves the groups that have the same key on both sides, once each, to `pairs`.
template <class KeyOf>
void match_round(std::vector<Group>& before, std::vector<Group>& after, std::vector<RecordPair>& pairs,
                 const KeyOf& key_of) {
  struct Sides {
    std::vector<size_t> before, after;
  };
  std::map<Key, Sides> by_key;
  for (size_t i = 0; i < before.size(); ++i) by_key[key_of(*before[i].front())].before.push_back(i);
  for (size_t i = 0; i < after.size(); ++i) by_key[key_of(*after[i].front())].after.push_back(i);
  for (const auto& [key, sides] : by_key) {
    if (sides.before.size() != 1 || sides.after.size() != 1) continue;
    Group &old_group = before[sides.before[0]], &new_group = after[sides.after[0]];
    pairs.push_back(choose(old_group, new_group));
    old_group.clear();
    new_group.clear();
  }
  std::erase_if(before, [](const Group& group) { return group.empty(); });
  std::erase_if(after, [](const Group& group) { return group.empty(); });
}

}  // namespace

std::string candidate_name(const EvalRecord& record) {
  const std::string submission = submission_of(record);
  return submission.empty() ? record.candidate.path : submission + ": " + record.candidate.path;
}

std::vector<RecordPair> match_records(std::span<const EvalRecord> old_records,
                                      std::span<const EvalRecord> new_records) {
  std::vector<Group> before = groups_of(old_records), after = groups_of(new_records);
  std::vector<RecordPair> pairs;
  match_round(before, after, pairs,
              [](const EvalRecord& r) { return Key(r.task, submission_of(r), r.candidate.path); });
  match_round(before, after, pairs,
              [](const EvalRecord& r) { return Key(r.task, submission_of(r), file_name(r.candidate.path)); });
  match_round(before, after, pairs, [](const EvalRecord& r) { return Key(r.task, "", file_name(r.candidate.path)); });
  for (const Group& group : before) pairs.push_back({group.front(), nullptr});
  for (const Group& group : after) pairs.push_back({nullptr, group.front()});
  const auto order = [](const RecordPair& pair) {
    const EvalRecord& record = pair.after ? *pair.after : *pair.before;
    return std::tuple(record.task, candidate_name(record), pair.after == nullptr);
  };
  std::stable_sort(pairs.begin(), pairs.end(),
                   [&](const RecordPair& a, const RecordPair& b) { return order(a) < order(b); });
  return pairs;
}

}  // namespace stepbench
