// Package join has the commands join and unjoin, which add a cluster to the fleet and remove it.
//
//   - join checks both sides before it writes anything. It can be repeated: a flag that is not given
//     keeps what is there.
//   - What a cluster grants is written only in config/member.
//   - An error says which steps are done. An interrupted command can be run again.
//   - unjoin deletes only the Secret and the MemberCluster that it asked about. It changes nothing on
//     the cluster, except with --revoke, and no AppService, except with --abandon.
package join
