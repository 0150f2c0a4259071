// SPDX-License-Identifier: Apache-2.0
package org.connectors;

import java.util.Collection;
import java.util.Map;
import java.util.Set;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.plugins.Plugin;
import org.elasticsearch.plugins.ScriptPlugin;
import org.elasticsearch.script.ScriptContext;
import org.elasticsearch.script.ScriptEngine;
import org.elasticsearch.script.UpdateCtxMap;
import org.elasticsearch.script.UpdateScript;

/**
 * Runs the script of updates, since the server of the tests lacks Painless.
 *
 * <p>It knows this script only.
 */
public final class UpdateScripts extends Plugin implements ScriptPlugin {
    private static final String SCRIPT = "ctx._source.putAll(params.doc)";

    @Override
    public ScriptEngine getScriptEngine(Settings settings, Collection<ScriptContext<?>> contexts) {
        return new Engine();
    }

    private static final class Engine implements ScriptEngine {
        @Override
        public String getType() {
            return "painless";
        }

        @Override
        public Set<ScriptContext<?>> getSupportedContexts() {
            return Set.of(UpdateScript.CONTEXT);
        }

        @Override
        public <T> T compile(
                String name, String source, ScriptContext<T> context, Map<String, String> options) {
            if (!source.equals(SCRIPT)) {
                throw new IllegalArgumentException("unknown script: " + source);
            }
            UpdateScript.Factory factory = Script::new;
            return context.factoryClazz.cast(factory);
        }
    }

    private static final class Script extends UpdateScript {
        private final UpdateCtxMap ctx;

        Script(Map<String, Object> params, UpdateCtxMap ctx) {
            super(params, ctx);
            this.ctx = ctx;
        }

        @Override
        @SuppressWarnings("unchecked")
        public void execute() {
            ((Map<String, Object>) ctx.get("_source"))
                    .putAll((Map<String, Object>) getParams().get("doc"));
        }
    }
}
