// SPDX-License-Identifier: Apache-2.0
package connectors;

import java.util.Collection;
import java.util.List;
import java.util.function.Predicate;
import java.util.function.Supplier;
import org.elasticsearch.Version;
import org.elasticsearch.client.internal.node.NodeClient;
import org.elasticsearch.cluster.metadata.IndexNameExpressionResolver;
import org.elasticsearch.cluster.node.DiscoveryNodes;
import org.elasticsearch.common.io.stream.NamedWriteableRegistry;
import org.elasticsearch.common.settings.ClusterSettings;
import org.elasticsearch.common.settings.IndexScopedSettings;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.common.settings.SettingsFilter;
import org.elasticsearch.features.NodeFeature;
import org.elasticsearch.plugins.ActionPlugin;
import org.elasticsearch.plugins.Plugin;
import org.elasticsearch.rest.BaseRestHandler;
import org.elasticsearch.rest.RestController;
import org.elasticsearch.rest.RestHandler;
import org.elasticsearch.rest.RestRequest;
import org.elasticsearch.rest.RestResponse;
import org.elasticsearch.rest.RestStatus;

/** Answers {@code GET /}, which the distribution for tests lacks and elasticsearch-hadoop needs. */
public class MainInfo extends Plugin implements ActionPlugin {
    private static final String ANSWER =
            "{\"name\":\"bench\",\"cluster_name\":\"elasticsearch\",\"cluster_uuid\":\"bench\","
                    + "\"version\":{\"number\":\"%s\",\"build_flavor\":\"default\"},"
                    + "\"tagline\":\"You Know, for Search\"}";

    @Override
    public Collection<RestHandler> getRestHandlers(
            Settings settings,
            NamedWriteableRegistry namedWriteables,
            RestController controller,
            ClusterSettings clusterSettings,
            IndexScopedSettings indexSettings,
            SettingsFilter filter,
            IndexNameExpressionResolver resolver,
            Supplier<DiscoveryNodes> nodes,
            Predicate<NodeFeature> features) {
        return List.of(new Handler());
    }

    private static final class Handler extends BaseRestHandler {
        @Override
        public String getName() {
            return "main_info";
        }

        @Override
        public List<Route> routes() {
            return List.of(new Route(RestRequest.Method.GET, "/"));
        }

        @Override
        protected RestChannelConsumer prepareRequest(RestRequest request, NodeClient client) {
            String answer = ANSWER.formatted(Version.CURRENT);
            return channel ->
                    channel.sendResponse(
                            new RestResponse(RestStatus.OK, "application/json", answer));
        }
    }
}
